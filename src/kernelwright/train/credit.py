"""From what was said and judged to numbers for each token: returns of turns, labels, and the row that is trained on.

A conversation is the answers of one sample, oldest first, with what was appended between them. Its row is

    prompt | answer 0 | reply | answer 1 | reply | answer 2

where replies carry no loss. Every token of an answer belongs to its plan or to its code.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright import rewards
from kernelwright.records import Candidate, Reward, Rollout, Verdict

REPLY = -1
"""Label of a token that the policy did not say."""


@dataclass(frozen=True)
class Conversation:
    """The turns of one sample: token ids of the prompt, rollouts, and the ids appended after all but the last."""

    asked: tuple[int, ...]
    turns: tuple[Rollout, ...]
    replies: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        assert len(self.replies) == len(self.turns) - 1

    @property
    def cut(self) -> bool:
        """Whether the last answer ran out of tokens."""
        return self.turns[-1].completion.finish_reason == "length"


@dataclass(frozen=True)
class Row:
    """What TRL is given of a conversation; the lists after `asked` are of one length."""

    asked: list[int]
    said: list[int]
    logprobs: list[float]
    labels: list[int]

    @property
    def own(self) -> list[int]:
        """1 for a token that the policy said, 0 for a reply's."""
        return [int(label != REPLY) for label in self.labels]


def row(conversation: Conversation, end: int, *, whole: bool = False) -> Row:
    """The row of a conversation. An empty answer is the end token `end`. `whole`: no plan apart from the code."""
    said: list[int] = []
    logprobs: list[float] = []
    labels: list[int] = []
    for turn, rollout in enumerate(conversation.turns):
        ids = rollout.completion.token_ids or (end,)
        start = 0 if whole else boundary(rollout.candidate)
        said += ids
        logprobs += rollout.completion.logprobs or (0.0,) * len(ids)
        labels += [2 * turn + (at >= start) for at in range(len(ids))]
        if turn < len(conversation.replies):
            reply = conversation.replies[turn]
            said += reply
            logprobs += [0.0] * len(reply)
            labels += [REPLY] * len(reply)
    return Row(list(conversation.asked), said, logprobs, labels)


def returns(conversation: Conversation, turns: int, gamma: float) -> list[tuple[float, float]]:
    """(plan, code) of each of `turns` turns: its reward plus gamma times the return of the next (Kevin).

    NaN for a turn that there was not, and for one without a reward, which adds nothing to those before it.
    """
    paid = rewards.discounted([rollout.reward or _NONE for rollout in conversation.turns], gamma)
    rows = [reward_row(reward) for reward in paid]
    return rows + [_MISSING] * (turns - len(rows))


def banded(verdict: Verdict, band: float) -> Verdict:
    """`verdict` with its speedup over eager in whole steps of `band`, towards 1; band 0 changes nothing.

    >>> banded(verdict_of_1_04x, 0.05).speedup()
    1.0
    """
    speedup = verdict.speedup()
    if not band or speedup is None or verdict.timing is None:
        return verdict
    exact = math.log(speedup) / math.log1p(band)
    snapped = (1 + band) ** math.trunc(exact + math.copysign(1e-9, exact))
    times = {**verdict.timing.baseline_ms, "eager": verdict.timing.candidate_ms * snapped}
    return verdict.model_copy(update={"timing": verdict.timing.model_copy(update={"baseline_ms": times})})


def repaid(rollout: Rollout, band: float) -> Rollout:
    """`rollout` with the reward of its banded verdict; the verdict that is logged stays as it was measured."""
    if not band or rollout.reward is None:
        return rollout
    paid = rewards.reward(rollout.reward.preset, banded(rollout.verdict, band))
    return rollout.model_copy(update={"reward": paid})


def agree(talks: Sequence[Conversation], turns: int, gamma: float) -> bool:
    """Whether a prompt's samples teach nothing: all were paid alike, or fewer than two were paid."""
    paid = [tuple(returns(talk, turns, gamma)) for talk in talks]
    known = [row for row in paid if any(turn is not _MISSING for turn in row)]
    return len(known) < 2 or len(set(known)) == 1


def boundary(candidate: Candidate) -> int:
    """Index of the first token that the code's reward pays for: all of them unless a plan comes before code."""
    if candidate.plan_span is None or candidate.code_span is None:
        return 0
    return candidate.code_span[0] if candidate.plan_span[0] < candidate.code_span[0] else 0


def reward_row(reward: Reward | None) -> tuple[float, float]:
    """(plan, code), both NaN when there is no reward: a turn is trained on whole or not at all."""
    if reward is None or reward.plan is None or reward.code is None:
        return _MISSING
    return reward.plan, reward.code


_MISSING: Any = (math.nan, math.nan)
_NONE = Reward(preset="none", plan=None, code=None)
