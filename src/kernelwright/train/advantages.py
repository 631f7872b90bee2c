"""Token-level advantages from the rewards of a group. Pure functions of tensors.

GRPO (Shao et al. 2024, arXiv 2402.03300, eq. 3): the advantage of a sample is its reward minus the mean of its
group, divided by the group's standard deviation. Dr. GRPO (Liu et al. 2025, arXiv 2503.20783) omits the
division. RLOO (Ahmadian et al. 2024, arXiv 2402.14740) subtracts the mean of the other samples. TritonRL rewards
plan and code separately: J = alpha * J_plan + J_code.

A reward of None (the judge failed) is NaN here: the sample is left out of its group and has advantage 0.
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
    """Advantages (B,) of rewards (B,), where each `group` consecutive samples share a prompt.

    Standard deviations are unbiased (over n - 1) and taken over the known rewards. A group with fewer than two of them
    has advantage 0. `negatives` scales negative advantages (Xiong et al. 2025, arXiv 2504.11343, find that learning
    from positive samples alone comes close to GRPO, and sooner).
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
    """Rewards (B,) in which each sample gets the best reward among the samples of its group with the same plan (`plans` (B,):
    an id each), so that one faulty implementation does not count against a plan. NaN stays NaN."""
    found = rewards.clone()
    for alike in _same_plan(plans, group):
        known = rewards[alike][~rewards[alike].isnan()]
        if len(known):
            found[alike] = torch.where(rewards[alike].isnan(), rewards[alike], known.max())
    return found


def within_plans(rewards: Tensor, plans: Tensor, group: int, **options: Any) -> Tensor:
    """Advantages (B,) of code, compared among samples with the same plan, or within the prompt's whole group if those have
    equal rewards. Options are those of `group_advantages`."""
    found = group_advantages(rewards, group, **options)
    for alike in _same_plan(plans, group):
        known = rewards[alike][~rewards[alike].isnan()]
        if len(known.unique()) > 1:
            found[alike] = group_advantages(rewards[alike], len(alike), **options)
    return found


def _same_plan(plans: Tensor, group: int) -> Iterator[Tensor]:
    """Indices of the samples in each group that share a plan, plan by plan."""
    for start in range(0, len(plans), group):
        some = plans[start : start + group]
        for plan in some.unique():
            yield (some == plan).nonzero().flatten() + start


def marginal(rewards: Tensor, group: int, k: int) -> Tensor:
    """What each sample (B,) adds to the best of `k` samples of its group: averaged over all sets of `k` that contain it, their
    maximum minus that of the others in the set (Walder and Karkhanis 2025, arXiv 2505.15201, leave-one-out baseline).

    `k` equal to the group's size gives the leave-one-out maximum. Samples with a NaN reward are in no set and stay NaN.
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
    """Add to `advantages` (B, T) a term that raises the entropy of the `chosen` tokens (B, T) while it, `nats`, is below `floor`.

    The term is the score-function form of the entropy's gradient, -log p minus its mean, times `gain` and the relative
    distance to the floor.
    """
    if not nats < floor or not bool(chosen.any()):
        return advantages
    centred = logprobs[chosen].mean() - logprobs
    return advantages + gain * (1 - nats / floor) * centred.masked_fill(~chosen, 0.0)


def agreeing(rewards: Tensor, group: int) -> Tensor:
    """Which groups (B / group,) teach nothing: all known rewards are equal, or fewer than two are known."""
    rows = rewards.view(-1, group)
    low = rows.nan_to_num(nan=torch.inf).amin(1)
    high = rows.nan_to_num(nan=-torch.inf).amax(1)
    return high <= low


def turn_advantages(returns: Tensor, group: int, *, across: bool = False, **options: Any) -> Tensor:
    """Advantages (B, K) from the returns (B, K) of K turns, compared within each turn or (`across`) over all turns.

    Kevin compares all turns of a prompt's samples; Dr.Kernel (Liu et al. 2026, arXiv 2602.05885) compares within a turn.
    Turns that a conversation did not reach are NaN. Options are those of `group_advantages`.
    """
    turns = returns.shape[1]
    if across:
        return group_advantages(returns.reshape(-1), group * turns, **options).view_as(returns)
    return torch.stack([group_advantages(returns[:, k], group, **options) for k in range(turns)], 1)


def spread(
    plan: Tensor, code: Tensor, labels: Tensor, *, alpha: float = 1.0, thoughts: Thoughts = "plan"
) -> Tensor:
    """Advantages (B, T) of tokens by their label: 3k for a thought, 3k + 1 for the plan and 3k + 2 for the code of
    turn k.

    `plan` and `code` are (B, K). Plan tokens get `alpha` times the plan's advantage, code tokens the code's, and thought
    tokens the plan's, the code's, both or none, as `thoughts` says. Tokens that the policy did not sample have a negative
    label and advantage 0. Each token has one label, so with equal advantages and alpha 1 this is scalar GRPO.
    """
    planned = alpha * plan
    thought = {"plan": planned, "code": code, "both": planned + code, "none": torch.zeros_like(code)}[
        thoughts
    ]
    each = torch.stack([thought, planned, code], 2).flatten(1)
    return each.gather(1, labels.clamp(min=0)).masked_fill(labels < 0, 0.0)


def modal(advantages: Tensor, logprobs: Tensor) -> Tensor:
    """`advantages` (B, T) without the positive ones of tokens sampled with probability below one half (`logprobs` (B, T)), and
    without the negative ones of tokens above it.

    A rare token in a correct sample is mostly a matter of taste, such as a name, and dominates the gradient (Yang et al.
    2025, arXiv 2505.12929, on tokens of low probability); a rare token in a wrong sample is often the mistake.
    """
    return advantages * ((advantages > 0) == (logprobs >= math.log(0.5)))


def _std(values: Tensor) -> Tensor:
    """The unbiased standard deviation of all values that are not NaN; 0 if fewer than two are."""
    there = values[~values.isnan()]
    return there.std() if len(there) > 1 else torch.zeros((), device=values.device, dtype=values.dtype)
