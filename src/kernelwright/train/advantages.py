"""From rewards of a group to an advantage for every token. Pure functions of tensors.

GRPO (Shao et al. 2024, arXiv 2402.03300, eq. 3): the advantage of a sample is its reward less the mean of
its group, over the group's standard deviation. Dr. GRPO (Liu et al. 2025, arXiv 2503.20783) leaves out the
division. RLOO (Ahmadian et al. 2024, arXiv 2402.14740) takes the mean of the others. TritonRL rewards plan
and code apart: J = alpha * J_plan + J_code.

A reward of None (the judge failed) is NaN here: the sample is no part of its group and has advantage 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

Scale = Literal["std", "none", "batch"]
Baseline = Literal["mean", "leave_one_out"]
Thoughts = Literal["plan", "code", "both", "none"]
EPSILON = 1e-4
"""Added to standard deviations, as TRL does."""


def group_advantages(
    rewards: Tensor, group: int, *, scale: Scale = "std", baseline: Baseline = "mean", negatives: float = 1.0
) -> Tensor:
    """Advantages (B,) of rewards (B,) whose consecutive `group` samples share a prompt.

    Standard deviations are the unbiased ones (over n - 1), of the rewards that are there. A group with fewer
    than two of them compares nothing: advantage 0. `negatives` scales those below 0 (Xiong et al. 2025, arXiv
    2504.11343, find that learning from positives alone comes close to GRPO, and sooner).
    """
    rows = rewards.view(-1, group)
    there = ~rows.isnan()
    count = there.sum(1, keepdim=True)
    known = rows.masked_fill(~there, 0.0)
    total = known.sum(1, keepdim=True)
    if baseline == "mean":
        base = total / count.clamp(min=1)
    else:
        base = (total - known) / (count - 1).clamp(min=1)
    advantages = known - base
    if scale == "std":
        mean = total / count.clamp(min=1)
        variance = ((known - mean) ** 2 * there).sum(1, keepdim=True) / (count - 1).clamp(min=1)
        advantages = advantages / (variance.sqrt() + EPSILON)
    elif scale == "batch":
        advantages = advantages / (_std(rewards) + EPSILON)
    advantages = torch.where(advantages < 0, negatives * advantages, advantages)
    return advantages.masked_fill(~there | (count < 2), 0.0).reshape(-1)


def best_of_plan(rewards: Tensor, plans: Tensor, group: int) -> Tensor:
    """Rewards (B,) where each sample has the best of those of its group that say the same plan (`plans` (B,), an id each): a
    plan is not to blame for code that is wrong once. None (NaN) stays none."""
    found = rewards.clone()
    for alike in _same_plan(plans, group):
        known = rewards[alike][~rewards[alike].isnan()]
        if len(known):
            found[alike] = torch.where(rewards[alike].isnan(), rewards[alike], known.max())
    return found


def within_plans(rewards: Tensor, plans: Tensor, group: int, **options: Any) -> Tensor:
    """Advantages (B,) of code compared with that of samples of the same plan; where those are paid alike, with the prompt's
    whole group. Options are those of `group_advantages`."""
    found = group_advantages(rewards, group, **options)
    for alike in _same_plan(plans, group):
        known = rewards[alike][~rewards[alike].isnan()]
        if len(known.unique()) > 1:
            found[alike] = group_advantages(rewards[alike], len(alike), **options)
    return found


def _same_plan(plans: Tensor, group: int) -> Iterator[Tensor]:
    """Indices of the samples of each group that say the same plan."""
    for start in range(0, len(plans), group):
        some = plans[start : start + group]
        for plan in some.unique():
            yield (some == plan).nonzero().flatten() + start


def marginal(rewards: Tensor, group: int, k: int) -> Tensor:
    """What each sample (B,) adds to the best of `k` of its group: the mean over all sets of `k` that hold it of their maximum
    less that of the others in them (Walder and Karkhanis 2025, arXiv 2505.15201, with a leave-one-out baseline).

    `k` equal to the group's size is the leave-one-out maximum. NaN for a reward of None, which is in no set.
    """
    found = torch.full_like(rewards, torch.nan)
    for start in range(0, len(rewards), group):
        there = (~rewards[start : start + group].isnan()).nonzero().flatten() + start
        order = there[rewards[there].argsort()]
        values, n = rewards[order], len(order)
        size = min(k, n)
        for place in range(n if size > 1 else 0):
            below = values[place] - values[:place]
            weights = [math.comb(other, size - 2) / math.comb(n - 1, size - 1) for other in range(place)]
            found[order[place]] = (below * below.new_tensor(weights)).sum()
    return found


def lift_entropy(
    advantages: Tensor, logprobs: Tensor, chosen: Tensor, nats: float, floor: float, gain: float
) -> Tensor:
    """`advantages` (B, T) with what lifts the entropy of the `chosen` tokens (B, T) while `nats` of it are below a `floor`.

    What is added is the score-function form of the entropy's gradient, -log p less its mean, by `gain` and by how far below
    the floor it is.
    """
    if not nats < floor or not bool(chosen.any()):
        return advantages
    centred = logprobs[chosen].mean() - logprobs
    return advantages + gain * (1 - nats / floor) * centred.masked_fill(~chosen, 0.0)


def agreeing(rewards: Tensor, group: int) -> Tensor:
    """Which groups (B / group,) teach nothing: all their known rewards are equal, or fewer than two are known."""
    rows = rewards.view(-1, group)
    low = rows.nan_to_num(nan=torch.inf).amin(1)
    high = rows.nan_to_num(nan=-torch.inf).amax(1)
    return high <= low


def turn_advantages(returns: Tensor, group: int, *, across: bool = False, **options: Any) -> Tensor:
    """Advantages (B, K) of the returns (B, K) of K turns, compared within each turn, or across all of them.

    Kevin compares all turns of a prompt's samples; Dr.Kernel (Liu et al. 2026, arXiv 2602.05885) those of a turn. A
    conversation that ended has NaN for the turns that it did not have. Options are those of `group_advantages`.
    """
    turns = returns.shape[1]
    if across:
        return group_advantages(returns.reshape(-1), group * turns, **options).view_as(returns)
    return torch.stack([group_advantages(returns[:, k], group, **options) for k in range(turns)], 1)


def spread(
    plan: Tensor, code: Tensor, labels: Tensor, *, alpha: float = 1.0, thoughts: Thoughts = "plan"
) -> Tensor:
    """Advantages (B, T) by what each token is: `labels` is 3k for a thought, 3k + 1 for the plan and 3k + 2 for the
    code of turn k.

    `plan` and `code` are (B, K). Plan tokens carry `alpha` times the plan's, code tokens the code's, thoughts what
    `thoughts` says: the plan's share, the code's, both or nothing. A negative label is a token that the policy did
    not say: 0. Every token is in one segment, so with equal advantages and alpha 1 this is scalar GRPO.
    """
    planned = alpha * plan
    thought = {"plan": planned, "code": code, "both": planned + code, "none": torch.zeros_like(code)}[
        thoughts
    ]
    each = torch.stack([thought, planned, code], 2).flatten(1)
    return each.gather(1, labels.clamp(min=0)).masked_fill(labels < 0, 0.0)


def modal(advantages: Tensor, logprobs: Tensor) -> Tensor:
    """`advantages` (B, T) without those above 0 of tokens that had less than even odds (`logprobs` (B, T), as they were
    sampled), and those below 0 of tokens that had more.

    What is rare in a right sample is mostly a matter of taste, such as a name, and outweighs all else in its gradient (Yang
    et al. 2025, arXiv 2505.12929, on tokens of low probability); what is rare in a wrong one is often the slip.
    """
    return advantages * ((advantages > 0) == (logprobs >= math.log(0.5)))


def _std(values: Tensor) -> Tensor:
    """The unbiased standard deviation of what is not NaN; 0 where fewer than two are."""
    there = values[~values.isnan()]
    return there.std() if len(there) > 1 else torch.zeros((), device=values.device, dtype=values.dtype)
