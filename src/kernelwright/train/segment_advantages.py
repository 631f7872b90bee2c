"""Computes advantages of plan and code from returns, and which turns are trained on, as a recipe sets it.

The arithmetic is in `advantages.py`; the options come from `[frontend]`, `[midend]` and `[backend]`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kernelwright import extensions
from kernelwright.config import RlConfig
from kernelwright.errors import UserError
from kernelwright.train.advantages import agreeing, best_of_plan, marginal, turn_advantages, within_plans


def segment_advantages(paid: Tensor, rl: RlConfig, plans: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Advantages (B, K) of plan and of code from returns (B, K, 2), each compared within its group.

    `uniform` credit compares the sums of both returns and gives both segments the same advantage. A user's function
    (`rl.advantage`) gets all returns. `plans` (B, K): an id per plan, for `grouping`.
    """
    if rl.advantage:
        made = _own_advantages(paid, rl)
        return made[..., 0], made[..., 1]
    options: Any = {"scale": rl.scale, "baseline": rl.baseline, "negatives": rl.negatives}
    options["across"] = rl.compare == "prompt"
    if rl.credit == "uniform":
        both = turn_advantages(paid.sum(2), rl.samples, **options)
        return both, both
    planned, columns = paid[..., 0], range(paid.shape[1])
    alike = plans if rl.grouping == "plans" else None
    if alike is not None:
        planned = torch.stack([best_of_plan(planned[:, k], alike[:, k], rl.samples) for k in columns], 1)
    if rl.best_of > 1:
        planned = torch.stack([marginal(planned[:, k], rl.samples, rl.best_of) for k in columns], 1)
    plan = turn_advantages(planned, rl.samples, **options)
    if alike is not None:
        del options["across"]
        code = [within_plans(paid[:, k, 1], alike[:, k], rl.samples, **options) for k in columns]
        return plan, torch.stack(code, 1)
    return plan, turn_advantages(paid[..., 1], rl.samples, **options)


def _own_advantages(paid: Tensor, rl: RlConfig) -> Tensor:
    """Calls a user's function on returns (prompts, samples, turns, 2), NaN where missing; missing ones get advantage 0."""
    returned = paid.unflatten(0, (-1, rl.samples))
    function = extensions.load(rl.advantage, "advantage")
    made = extensions.call(function, rl.advantage, "advantage", returned.clone())
    if not isinstance(made, Tensor) or made.shape != returned.shape:
        got = tuple(made.shape) if isinstance(made, Tensor) else type(made).__name__
        raise UserError(
            f"advantage = {rl.advantage!r} returned {got}; return a tensor of the shape that it was given, "
            f"{tuple(returned.shape)}: prompts, samples, turns, (plan, code)"
        )
    made = made.to(paid).masked_fill(returned.isnan(), 0.0)
    if not made.isfinite().all():
        raise UserError(f"advantage = {rl.advantage!r} returned NaN or infinity for a known return; fix it")
    return made.flatten(0, 1)


def spread_options(rl: RlConfig) -> dict[str, Any]:
    """Options of `spread`. With uniform credit, plan and code have the same advantage."""
    if rl.credit == "hierarchical":
        return {"alpha": rl.alpha, "thoughts": rl.thoughts}
    return {"thoughts": "none" if rl.thoughts == "none" else "code"}


def trained_turns(paid: Tensor, rl: RlConfig) -> Tensor:
    """Which turns (B, K) are in the loss: those with a return and, if `agreeing` is "drop", whose group's returns differ."""
    there = ~paid.isnan().any(2)
    if rl.agreeing == "keep":
        return there
    columns = [paid.sum(2)] if rl.credit == "uniform" else [paid[..., 0], paid[..., 1]]
    same = torch.stack(
        [torch.stack([agreeing(c[:, k], rl.samples) for k in range(paid.shape[1])], 1) for c in columns]
    ).all(0)
    if rl.compare == "prompt":
        same = same.all(1, keepdim=True).expand_as(same)
    return there & ~same.repeat_interleave(rl.samples, 0)
