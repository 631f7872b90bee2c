"""Samples each answer's plan and decodes its code greedily.

All decisions are in the plan, and the code follows from it: one sampled token in a hundred would be a wrong name. It takes two
passes, the second continuing the first's tokens, so any decoder works. Between them the library can print the host function, after
which the model writes the kernels. Not for training: log-probs come from two distributions, and those of printed tokens are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernelwright.policy.hf import HFPolicy
from kernelwright.policy.policy import OnCompletion
from kernelwright.policy.text import completion_ids, until_plan
from kernelwright.prompts import PLAN_END, until_kernels
from kernelwright.records import Completion, Prompt

PLAN_TOKENS = 128
"""The longest plan has 90 tokens."""


class PlanFirst:
    """A local model whose code is written at temperature 0."""

    def __init__(self, policy: HFPolicy) -> None:
        self._policy = policy
        self.name = policy.name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def pieces(self, completion: Completion) -> tuple[str, ...] | None:
        return self._policy.pieces(completion)

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        on_completion: OnCompletion | None = None,
        **sampling: Any,
    ) -> list[list[Completion]]:
        """Like the policy's own. An answer whose plan does not end in time stays as truncated."""
        short = [
            one.model_copy(update={"max_tokens": min(one.max_tokens, PLAN_TOKENS)})
            if one.answer != "plan"
            else one
            for one in prompts
        ]
        drawn = self._policy.generate(short, n, **sampling)
        follow: dict[tuple[int, tuple[int, ...]], Prompt] = {}
        for row, (prompt, group) in enumerate(zip(prompts, drawn, strict=True)):
            for place, one in enumerate(group):
                if prompt.answer == "plan" or PLAN_END not in one.text or one.token_ids is None:
                    continue
                group[place] = kept = self._begun(prompt, until_plan(one, self._policy.pieces(one) or ()))
                assert kept.token_ids is not None
                budget = max(1, prompt.max_tokens - len(kept.token_ids))
                follow.setdefault((row, kept.token_ids), prompt.model_copy(update={"max_tokens": budget}))
        written = self._written(prompts, follow, sampling | {"temperature": 0.0})
        for row, group in enumerate(drawn):
            for place, one in enumerate(group):
                code = written.get((row, one.token_ids or ()))
                group[place] = one if code is None else _join(one, code)
                if on_completion is not None:
                    on_completion(row, place, group[place])
        return drawn

    def _begun(self, prompt: Prompt, planned: Completion) -> Completion:
        """The completion that the code continues: the plan, for "plan+kernels" with the host function, if the library prints it."""
        if prompt.answer != "plan+kernels" or prompt.task is None or not prompt.task.graph:
            return planned
        plan = planned.text.partition(PLAN_END)[0].rpartition("<plan>")[2].strip()
        if not (text := until_kernels(prompt.task.graph, plan)):
            return planned
        ids = completion_ids(self._policy.tokenizer, text)[:-1]
        chances = [*(planned.logprobs or ()), *(0.0 for _ in ids)][: len(ids)]
        return planned.model_copy(update={"text": text, "token_ids": tuple(ids), "logprobs": tuple(chances)})

    def _written(
        self,
        prompts: Sequence[Prompt],
        follow: dict[tuple[int, tuple[int, ...]], Prompt],
        sampling: dict[str, Any],
    ) -> dict[tuple[int, tuple[int, ...]], Completion]:
        """The code after each plan; equal plans are generated once."""
        given = {id(one): [*self._policy.encode(prompts[row]), *ids] for (row, ids), one in follow.items()}
        self._policy.given.update(given)
        try:
            answers = self._policy.generate(list(follow.values()), 1, **sampling)
        finally:
            for one in given:
                del self._policy.given[one]
        return {key: group[0] for key, group in zip(follow, answers, strict=True)}


def _join(plan: Completion, code: Completion) -> Completion:
    return code.model_copy(
        update={
            "text": plan.text + code.text,
            "token_ids": (*(plan.token_ids or ()), *(code.token_ids or ())),
            "logprobs": (*(plan.logprobs or ()), *(code.logprobs or ())),
        }
    )
