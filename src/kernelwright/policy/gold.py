"""The policy that always answers with the built-in gold kernel of the task it is asked about.

It calibrates a run (every gold must be accepted) and stands in for a model in tests. A task without a gold
gets an empty completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelwright.errors import UserError
from kernelwright.policy.policy import OnCompletion
from kernelwright.records import Completion, Prompt


class GoldPolicy:
    """Answers with golds, the same for every sample and seed."""

    name = "gold"

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        on_completion: OnCompletion | None = None,
        **sampling: Any,
    ) -> list[list[Completion]]:
        answers = [[_answer(prompt.task_id)] * n for prompt in prompts]
        if on_completion is not None:
            for row, group in enumerate(answers):
                for sample, completion in enumerate(group):
                    on_completion(row, sample, completion)
        return answers

    def pieces(self, completion: Completion) -> tuple[str, ...] | None:
        return None


def _answer(task_id: str) -> Completion:
    from kernelwright import prompts
    from kernelwright.tasks import gold

    try:
        code = gold(task_id)
    except UserError:
        return Completion(text="", policy="gold")
    return Completion(text=prompts.completion_text("the built-in gold kernel", code), policy="gold")
