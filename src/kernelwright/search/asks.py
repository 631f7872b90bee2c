"""What the agents are asked, turn by turn: a translation, repairs of what was rejected, improvements of what was not."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from kernelwright import prompts
from kernelwright.config import Style
from kernelwright.errors import UserError
from kernelwright.graph.partition import by_place
from kernelwright.graph.types import Graph
from kernelwright.outcomes import Outcome
from kernelwright.policy import Policy
from kernelwright.policy.text import style_said
from kernelwright.records import Agent, Prompt, Rollout, Task
from kernelwright.search.tune import milliseconds

_SHOWN = 4
"""Rejected kernels that are shown for repair in one turn."""
_IMPROVED = 2
"""Verified kernels that are shown for improvement in one turn."""


@dataclass(frozen=True)
class Asking:
    """How prompts are made."""

    task: Task
    style: Style
    target: str
    max_tokens: int
    fits: Callable[[Prompt], bool] = lambda prompt: True
    """Whether a prompt leaves room for an answer."""

    def prompts(self, agent: Agent, rollouts: Sequence[Rollout], samples: int) -> tuple[str, list[Prompt]]:
        """(`translate`, `repair` or `improve`, at most `samples` prompts), given all that was judged before.

        Half of a turn of repairs asks anew: what a small model got wrong it often cannot mend. No prompts where none fits.
        """
        if agent != "frontend":
            best = verified_kernels(rollouts)[: min(_IMPROVED, samples)]
            asked = [
                self._prompt(
                    agent, kernel=r.candidate.code, plan=r.candidate.plan, profile=prompts.profile(r.verdict)
                )
                for r in best
            ]
            return "improve", [prompt for prompt in asked if self.fits(prompt)]
        fresh = self._prompt(agent)
        shown = [
            self._prompt(agent, kernel=r.candidate.code, feedback=prompts.feedback(r.verdict))
            for r in rejected_kernels(rollouts)[:_SHOWN]
        ]
        shown = [prompt for prompt in shown if self.fits(prompt)][: max(1, samples // 2)]
        if not shown:
            return "translate", [fresh]
        return "repair", [*shown, *[fresh] * min(len(shown), samples - len(shown))]

    @functools.cached_property
    def _named(self) -> Task:
        """The task as a small model was trained: its graph's values are named by their places. Arguments are passed by place, so
        that the answer's names are its own."""
        if self.style == "chat" or not self.task.graph:
            return self.task
        graph = by_place(Graph.model_validate_json(self.task.graph))
        return self.task.model_copy(update={"graph": graph.model_dump_json()})

    def _prompt(
        self, agent: Agent, *, kernel: str = "", plan: str = "", feedback: str = "", profile: str = ""
    ) -> Prompt:
        return prompts.render(
            agent,
            self._named,
            style=self.style,
            kernel=kernel,
            plan=plan,
            feedback=feedback,
            profile=profile,
            target=self.target,
            max_tokens=self.max_tokens,
        )


def fitting(policy: Policy) -> Callable[[Prompt], bool]:
    """Whether a prompt leaves an eighth of the policy's context for the answer; true where that is not known."""
    encode, context = getattr(policy, "encode", None), getattr(policy, "context", 0)
    if encode is None or not context:
        return lambda prompt: True
    return lambda prompt: len(encode(prompt)) <= 7 * context // 8


def style_of(policy: Policy) -> Style:
    """How to ask: as a local model without a chat template (ours) was trained, which its tokenizer says; else `chat`.

    Raises UserError where a model was trained on prompts that are not written any more.
    """
    tokenizer = getattr(policy, "tokenizer", None)
    if tokenizer is None or getattr(tokenizer, "chat_template", None):
        return "chat"
    style = cast(Style, style_said(tokenizer) or "compact")
    if style not in prompts.STYLES:
        raise UserError(
            f"policy {policy.name}: it was trained on prompts in the style {style!r}, which is not written any more; "
            "name another policy, or train one with kernelwright train"
        )
    return style


def verified_kernels(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Verified kernels, each code once, the fastest first."""
    return sorted(_distinct([r for r in rollouts if r.verdict.correct]), key=milliseconds)


def rejected_kernels(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Rejected kernels that have code, each once, those that came furthest through the funnel first."""
    order = list(Outcome)
    judged = [r for r in rollouts if r.candidate.code and r.verdict.outcome.judged and not r.verdict.correct]
    return sorted(_distinct(judged), key=lambda r: -order.index(r.verdict.outcome))


def _distinct(rollouts: Sequence[Rollout]) -> list[Rollout]:
    return list({r.candidate.digest: r for r in reversed(rollouts)}.values())[::-1]
