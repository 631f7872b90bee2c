"""Prompts for the agents, turn by turn: translate, repair rejected kernels, improve accepted ones."""

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
from kernelwright.policy.text import trained_style
from kernelwright.records import Agent, Prompt, Rollout, Task
from kernelwright.search.tune import milliseconds

_SHOWN = 4
"""Most rejected kernels shown for repair in one turn."""
_IMPROVED = 2
"""Most verified kernels shown for improvement in one turn."""


@dataclass(frozen=True)
class Asking:
    """How prompts are made."""

    task: Task
    style: Style
    target: str
    max_tokens: int
    fits: Callable[[Prompt], bool] = lambda prompt: True
    """Whether a prompt leaves room for a completion."""

    def prompts(self, agent: Agent, rollouts: Sequence[Rollout], samples: int) -> tuple[str, list[Prompt]]:
        """(`translate`, `repair` or `improve`, at most `samples` prompts), given all rollouts judged so far.

        Half of a turn of repairs starts afresh, since a small model often cannot repair its own mistakes. No prompts if none fits.
        """
        if agent != "frontend":
            best = verified_kernels(rollouts)[: min(_IMPROVED, samples)]
            drafts = [
                self._prompt(
                    agent, kernel=r.candidate.code, plan=r.candidate.plan, profile=prompts.profile(r.verdict)
                )
                for r in best
            ]
            return "improve", [prompt for prompt in drafts if self.fits(prompt)]
        fresh = [prompt for prompt in [self._prompt(agent)] if self.fits(prompt)]
        shown = [
            self._prompt(agent, kernel=r.candidate.code, feedback=prompts.feedback(r.verdict))
            for r in rejected_kernels(rollouts)[:_SHOWN]
        ]
        shown = [prompt for prompt in shown if self.fits(prompt)][: max(1, samples // 2)]
        if not shown:
            return "translate", fresh
        return "repair", [*shown, *fresh * min(len(shown), samples - len(shown))]

    @functools.cached_property
    def _named(self) -> Task:
        """The task in the form that small models were trained on: the graph's values are named by position. The kernel may name
        its arguments freely, since they are passed by position."""
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
            answer="plan+code" if self.style == "chat" else "plan+kernels",
        )


def fitting(policy: Policy) -> Callable[[Prompt], bool]:
    """A test whether a prompt leaves an eighth of the policy's context for the completion; always true if the context is unknown."""
    encode, context = getattr(policy, "encode", None), getattr(policy, "context", 0)
    if encode is None or not context:
        return lambda prompt: True
    return lambda prompt: len(encode(prompt)) <= 7 * context // 8


def style_of(policy: Policy) -> Style:
    """The prompt style: for a local model without a chat template (ours), the one that its tokenizer says it was trained on; else
    `chat`.

    Raises UserError if the model was trained on a style that is no longer supported.
    """
    tokenizer = getattr(policy, "tokenizer", None)
    if tokenizer is None or getattr(tokenizer, "chat_template", None):
        return "chat"
    style = cast(Style, trained_style(tokenizer) or "compact")
    if style not in prompts.STYLES:
        raise UserError(
            f"policy {policy.name}: it was trained on prompts in the style {style!r}, which is not written any more; "
            "name another policy, or train one with kernelwright train"
        )
    return style


def verified_kernels(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Verified kernels without duplicates, fastest first."""
    return sorted(_distinct([r for r in rollouts if r.verdict.correct]), key=milliseconds)


def rejected_kernels(rollouts: Sequence[Rollout]) -> list[Rollout]:
    """Rejected kernels that have code, without duplicates, those that passed most gates first."""
    order = list(Outcome)
    judged = [r for r in rollouts if r.candidate.code and r.verdict.outcome.judged and not r.verdict.correct]
    return sorted(_distinct(judged), key=lambda r: -order.index(r.verdict.outcome))


def _distinct(rollouts: Sequence[Rollout]) -> list[Rollout]:
    return list({r.candidate.digest: r for r in reversed(rollouts)}.values())[::-1]
