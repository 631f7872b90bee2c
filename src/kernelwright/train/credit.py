"""Turns conversations and verdicts into numbers for each token: returns of turns, labels, and the rows to train on.

A conversation is the answers of one sample, oldest first, with the replies between them. Its row is

    prompt | answer 0 | reply | answer 1 | reply | answer 2

where replies carry no loss. If later answers do not see earlier thoughts (Kevin), each turn is a row of its own:

    prompt | answer 0
    prompt | answer 0 without its thoughts | reply | answer 1

Every token of an answer is thought, plan or code. The code begins at one boundary; before it, text in think tags is
thought and all else is plan. Not recognised: an unclosed thought whose opening tag is in the prompt.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright import rewards
from kernelwright.records import Candidate, Reward, Rollout, Verdict

REPLY = -1
"""Label of a token that the policy did not sample."""
THOUGHT, PLAN, CODE = range(3)
"""Labels of the first turn's tokens; turn k adds 3k."""


@dataclass(frozen=True)
class Conversation:
    """The turns of one sample: the prompt's token ids, the rollouts, and the ids of the reply after each but the last."""

    prompt: tuple[int, ...]
    turns: tuple[Rollout, ...]
    replies: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        assert len(self.replies) == len(self.turns) - 1

    @property
    def cut(self) -> bool:
        """Whether the last answer hit the token limit."""
        return self.turns[-1].completion.finish_reason == "length"

    def context(self, turn: int, *, thoughts: bool = True) -> list[int]:
        """Token ids before the answer of `turn`, with or without the `thoughts` of earlier answers."""
        ids = list(self.prompt)
        for rollout, reply in zip(self.turns[:turn], self.replies[:turn], strict=True):
            ids += [*answer_ids(rollout, thoughts=thoughts), *reply]
        return ids


@dataclass(frozen=True)
class Row:
    """What TRL gets of a conversation; all lists but `prompt` have equal length."""

    prompt: list[int]
    tokens: list[int]
    logprobs: list[float]
    labels: list[int]

    @property
    def own(self) -> list[int]:
        """1 for each token that the policy sampled, 0 for those of replies."""
        return [int(label != REPLY) for label in self.labels]


def answer_ids(rollout: Rollout, *, thoughts: bool = True) -> list[int]:
    """Token ids of an answer, with or without its thoughts."""
    hidden = () if thoughts else rollout.candidate.thought_spans
    ids = rollout.completion.token_ids or ()
    return [token for at, token in enumerate(ids) if not any(a <= at < b for a, b in hidden)]


def row(conversation: Conversation, end: int) -> Row:
    """The row of a whole conversation. An empty answer becomes the end token `end`."""
    made = turn_row(conversation, 0, end)
    for turn, reply in enumerate(conversation.replies, 1):
        made.tokens.extend(reply)
        made.logprobs.extend([0.0] * len(reply))
        made.labels.extend([REPLY] * len(reply))
        answer = turn_row(conversation, turn, end)
        made.tokens.extend(answer.tokens)
        made.logprobs.extend(answer.logprobs)
        made.labels.extend(answer.labels)
    return made


def turn_row(conversation: Conversation, turn: int, end: int) -> Row:
    """The answer of `turn` as its own row, after a context without earlier thoughts.

    A missing turn becomes one `end` token without loss, since TRL needs equally many rows for every sample.
    """
    if turn >= len(conversation.turns):
        return Row([end], [end], [0.0], [REPLY])
    rollout = conversation.turns[turn]
    ids = rollout.completion.token_ids or (end,)
    labels = [3 * turn + part for part in parts(rollout.candidate, len(ids))]
    logprobs = rollout.completion.logprobs or (0.0,) * len(ids)
    return Row(conversation.context(turn, thoughts=False), list(ids), list(logprobs), labels)


def parts(candidate: Candidate, count: int) -> list[int]:
    """The kind of each of an answer's `count` tokens: THOUGHT, PLAN or CODE."""
    first = boundary(candidate)
    labels = [PLAN] * min(first, count) + [CODE] * max(0, count - first)
    for start, end in candidate.thought_spans:
        for at in range(start, min(end, first, count)):
            labels[at] = THOUGHT
    return labels


def returns(conversation: Conversation, turns: int, gamma: float) -> list[tuple[float, float]]:
    """(plan, code) returns of `turns` turns: each turn's reward plus gamma times the return of the next (Kevin).

    Missing turns are NaN, and so are turns without a reward, which add nothing to earlier ones.
    """
    paid = rewards.discounted_returns([rollout.reward or _NONE for rollout in conversation.turns], gamma)
    rows = [reward_row(reward) for reward in paid]
    return rows + [_MISSING] * (turns - len(rows))


def round_speedup(verdict: Verdict, band: float) -> Verdict:
    """`verdict` with its speedup over eager rounded towards 1 in steps of a factor 1 + `band`; band 0 changes nothing.

    >>> round_speedup(verdict_of_1_04x, 0.05).speedup()
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
    """`rollout` with the reward of its rounded verdict; the logged verdict keeps the measured time."""
    if not band or rollout.reward is None:
        return rollout
    verdict, completion = round_speedup(rollout.verdict, band), rollout.completion
    paid = rewards.reward(rollout.reward.preset, verdict, candidate=rollout.candidate, completion=completion)
    return rollout.model_copy(update={"reward": paid})


def agree(talks: Sequence[Conversation], turns: int, gamma: float) -> bool:
    """Whether a prompt's samples teach nothing: all have equal returns, or fewer than two have one."""
    paid = [tuple(returns(talk, turns, gamma)) for talk in talks]
    known = [row for row in paid if any(turn is not _MISSING for turn in row)]
    return len(known) < 2 or len(set(known)) == 1


def boundary(candidate: Candidate) -> int:
    """Index of the first code token: 0 unless a thought or a plan comes before it.

    Without code, everything after the thoughts and the plan counts as code.
    """
    spans = [*candidate.thought_spans, *([candidate.plan_span] if candidate.plan_span else [])]
    if candidate.code_span is None:
        return max((end for _, end in spans), default=0)
    first = candidate.code_span[0]
    return first if any(start < first for start, _ in spans) else 0


def reward_row(reward: Reward | None) -> tuple[float, float]:
    """(plan, code), both NaN without a reward: a turn is trained on entirely or not at all."""
    if reward is None or reward.plan is None or reward.code is None:
        return _MISSING
    return reward.plan, reward.code


_MISSING: Any = (math.nan, math.nan)
_NONE = Reward(preset="none", plan=None, code=None)
