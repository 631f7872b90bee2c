"""The interface of a policy: completions of prompts, and the text of each token."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from kernelwright.records import Completion, Prompt

OnCompletion = Callable[[int, int, Completion], None]
"""Called as `(prompt index, sample index, completion)` as soon as a completion ends, in any order."""


@runtime_checkable
class Policy(Protocol):
    """The interface of a policy, as rollouts use it."""

    name: str

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_completion: OnCompletion | None = None,
        until: float = math.inf,
    ) -> list[list[Completion]]:
        """`n` completions of each prompt, in order. The same seed gives the same answer if the policy can reproduce it. Raises
        TimeoutError if it is still at work at `until` on the monotonic clock, where it can stop."""
        ...

    def pieces(self, completion: Completion) -> tuple[str, ...] | None:
        """The text of each token (concatenated, they are `completion.text`); None if unknown."""
        ...
