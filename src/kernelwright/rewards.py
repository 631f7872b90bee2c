"""Rewards from verdicts: a number for the plan and one for the code. Pure functions, named presets.

Presets depend only on the verdict. A candidate without a fair verdict (`unsupported`, `infrastructure_error`) gets None for
both segments under every preset, and so does a reward that is not finite. A preset whose source gives one number for the
whole completion gives half of it to each segment, so that `Reward.total` is the source's number under uniform credit and
both segments learn under hierarchical credit. A correct candidate that could not be timed gets the least reward of a
correct candidate under the preset.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kernelwright import extensions
from kernelwright.errors import UserError
from kernelwright.outcomes import Category, Gate, Outcome
from kernelwright.records import Reward, Verdict

Segments = tuple[float, float]
"""(plan, code)"""


def reward(preset: str, verdict: Verdict, **context: Any) -> Reward:
    """The reward of `verdict` under a preset or a user's function (`my_reward.py:reward`).

    A user's function gets the verdict and, of `context` (candidate, completion), what its parameters name; it returns a number,
    (plan, code), or None for no reward. Raises UserError for an unknown preset, and for a function that cannot be loaded,
    raises, or returns something else.
    """
    if not extensions.names_function(preset):
        check_preset(preset)
    if not verdict.outcome.judged:
        return Reward(preset=preset, plan=None, code=None)
    paid = _own(preset, verdict, context) if extensions.names_function(preset) else PRESETS[preset](verdict)
    if paid is None:
        return Reward(preset=preset, plan=None, code=None)
    plan, code = paid
    if not (math.isfinite(plan) and math.isfinite(code)):
        return Reward(preset=preset, plan=None, code=None)
    return Reward(preset=preset, plan=plan, code=code)


def check_preset(preset: str) -> None:
    """Raises UserError, listing the presets, unless `preset` is one or names a user's function that can be loaded."""
    if extensions.names_function(preset):
        extensions.load(preset, "reward")
    elif preset not in PRESETS:
        raise UserError(
            f"unknown reward preset {preset!r}; valid: {', '.join(PRESETS)}, or a function of yours as "
            f"{extensions.FORM}"
        )


def _own(spec: str, verdict: Verdict, context: Mapping[str, Any]) -> Segments | None:
    """The reward by a user's function."""
    paid = extensions.call(extensions.load(spec, "reward"), spec, "reward", verdict, **context)
    if paid is None:
        return None
    if isinstance(paid, numbers.Real):
        return _halves(float(paid))
    if isinstance(paid, tuple | list) and len(paid) == 2 and all(isinstance(p, numbers.Real) for p in paid):
        return float(paid[0]), float(paid[1])
    raise UserError(
        f"reward = {spec!r} returned {type(paid).__name__}; return a number, (plan, code), or None for no reward"
    )


def toronto_frontend(verdict: Verdict) -> Segments:
    """-10 if compilation or correctness fails, else 1.

    Source: the front-end agent of the Toronto report on reinforcement learning for Triton kernels (GRPO, K = 4).
    """
    return _halves(1.0 if verdict.correct else -10.0)


def toronto_midend(verdict: Verdict) -> Segments:
    """-10 if compilation or correctness fails, else 1 + t_torch / t_triton (eager PyTorch).

    Source: the mid-end agent of the Toronto report.
    """
    return _halves(1.0 + _speedup(verdict) if verdict.correct else -10.0)


def autotriton(verdict: Verdict) -> Segments:
    """Rule times execution, each 0 or 1: whether it is Triton at all, and whether the tests pass.

    Source: AutoTriton (Li et al. 2025, arXiv 2507.05687). Its rule looks for `@triton.jit`; ours requires that the code is
    well formed and was not caught cheating, which also excludes a kernel that only decorates torch.
    """
    rule = verdict.outcome.well_formed and verdict.outcome.category is not Category.CHEATING
    return _halves(float(rule) * float(verdict.correct))


SLOW, PAID_WHERE_SLOW = 0.3, 0.25
"""`usable` pays less below this speedup over eager, a margin wide enough for the cost model's errors; and how much."""


def usable(verdict: Verdict) -> Segments:
    """1 for a correct kernel, a quarter if it is far slower than eager or its speed is unknown, 0 otherwise.

    Source: ours, for stages that reward correctness and measure no times: the cost model suffices. Under `autotriton`, a policy
    learned that tiles of four elements are as correct as any (docs/history/log.md).
    """
    if not verdict.correct:
        return _halves(0.0)
    speedup = verdict.speedup()
    own, eager = verdict.evidence.cost, verdict.evidence.reference_cost
    if speedup is None and own is not None and eager is not None:
        speedup = eager.ms / own.ms
    fast = speedup is not None and speedup >= SLOW
    return _halves(1.0 if fast else PAID_WHERE_SLOW)


def tritonrl(verdict: Verdict) -> Segments:
    """Plan: speedup. Code: correctness, 0 or 1. Both 0 unless the code is valid (syntax, honest Triton).

    Source: TritonRL (Woo et al. 2025, arXiv 2510.17891), J = alpha * J_plan + J_code; alpha is the recipe's
    (`credit = "hierarchical"`, `alpha = 0.1`). The verifier's acceptance implies validity.
    """
    return (_speedup(verdict), 1.0) if verdict.correct else (0.0, 0.0)


def kevin(verdict: Verdict) -> Segments:
    """0.3 * correct + speedup, one turn's score; `discounted_returns` makes the returns of several turns.

    Source: Kevin-32B (Baronio et al. 2025, arXiv 2507.11948).
    """
    return _halves(0.3 + _speedup(verdict) if verdict.correct else 0.0)


def drkernel(verdict: Verdict) -> Segments:
    """correct + min(speedup, 3) + share of GPU time in the candidate's own kernels; 0 unless correct.

    Source: Dr.Kernel (Liu et al. 2026, arXiv 2602.05885). The share is the evidence's `own_share`; if that is unknown, 1 if torch
    computed nothing, else 0.
    """
    if not verdict.correct:
        return _halves(0.0)
    share = verdict.evidence.own_share
    if share is None:
        share = 0.0 if verdict.evidence.aten_ops else 1.0
    return _halves(1.0 + min(_speedup(verdict), 3.0) + min(max(share, 0.0), 1.0))


STEP = 0.05
"""Speed counts in whole steps of 5 %, several times the noise of an interleaved median. So noise gives no advantage within a
group of equally fast kernels, which scaling by the standard deviation would amplify."""
PAY = ((1 / 8, -0.75), (1.0, 0.0), (4.0, 0.8), (64.0, 1.0))
"""(speedup over eager, reward), interpolated linearly over the logarithm and constant beyond both ends. Most of the reward is
up to 4x; the tail is for tasks whose roofline is far above eager, so that 8x is still better than 4x."""
_CORRECT, _SPEED_SHARE = 0.75, 0.25

_LADDER: Mapping[Outcome, float] = {
    # Nothing to learn from, or nothing honest: the floor. An empty answer is worth exactly as much as a decoy.
    Outcome.EMPTY_COMPLETION: -1.0,
    Outcome.NO_CODE: -1.0,
    Outcome.NOT_TRITON: -1.0,
    # Format.
    Outcome.TRUNCATED: -0.9,
    Outcome.SYNTAX_ERROR: -0.8,
    Outcome.NO_ENTRY: -0.7,
    # It is a Triton program: does it load?
    Outcome.INVALID_IMPORT: -0.6,
    Outcome.MIGRATED: -0.6,
    Outcome.LOAD_ERROR: -0.6,
    Outcome.CONSTRUCTOR_ERROR: -0.5,
    # Does it compile?
    Outcome.COMPILE_ERROR: -0.4,
    Outcome.OUT_OF_RESOURCES: -0.35,
    # Does it run?
    Outcome.TIMEOUT: -0.25,
    Outcome.OUT_OF_MEMORY: -0.25,
    Outcome.RUNTIME_ERROR: -0.25,
    Outcome.OUT_OF_BOUNDS: -0.2,
    # Is it correct?
    Outcome.WRONG_STRUCTURE: -0.1,
    Outcome.WRONG_SHAPE: -0.1,
    Outcome.WRONG_DTYPE: -0.1,
    Outcome.UNWRITTEN: 0.0,
    Outcome.NON_FINITE: 0.0,
    Outcome.WRONG_VALUE: 0.0,
    # Correct on some cases.
    Outcome.WRONG_ON_DISTRIBUTION: 0.2,
    Outcome.WRONG_ON_SHAPE: 0.25,
    Outcome.LOW_PRECISION: 0.3,
    Outcome.NONDETERMINISTIC: 0.3,
    # Nothing was found wrong, but part could not be checked: neither rewarded nor punished.
    Outcome.UNPROVEN: 0.0,
}
_CAP = {Gate.PARSE: -0.7, Gate.STATIC: -0.7, Gate.LOAD: -0.5, Gate.TRACE: -0.35, Gate.COMPILE: -0.35}
"""The most that a failure at a gate gets, whatever its outcome: a time-out while loading is not a run."""


def wright(verdict: Verdict) -> Segments:
    """The default, ours: bounded in [-1, 1] per segment, graded along the funnel, speed in coarse steps.

    Code: a failure gets its rung of the funnel, from -1 to 0.3; a correct candidate 0.75 plus a quarter of the plan's speed
    term, because block sizes, warps and stages are written in the code. Plan: -1 for a failure; for a correct candidate the
    speed term: the lower end of the interval of its speedup over eager, in whole steps of 5 %, on the scale of `PAY`, within
    [-0.75, 1]. Cheating gets -1 for both.

    Properties: every correct candidate, however slow, beats every incorrect one in each segment (plan -0.75 > -1, code
    0.56 > 0.3) and so in any weighting of them; the lowest rungs are equal, so neither silence nor a decoy pays; avoiding
    the timer pays like the slowest kernel; and no single verdict can outweigh a group, however large the speedup it claims.
    """
    if verdict.outcome.accepted:
        speed = _speed_term(verdict)
        return speed, _CORRECT + _SPEED_SHARE * speed
    if verdict.outcome.category is Category.CHEATING:
        return -1.0, -1.0
    rung = _LADDER[verdict.outcome]
    return -1.0, max(-1.0, min(rung, _CAP.get(verdict.gate, rung)))


def plans(verdict: Verdict) -> Segments:
    """Plan: the speed relative to the best known kernel, in whole steps of 5 %, as doublings within [-1, 1]. Code: 1 if it is
    correct, else 0; -1 for cheating.

    Source: ours, after TritonRL: a plan is rewarded for its time, code for implementing the plan. A wrong kernel's plan gets the
    reward of twice the best time, since its own is unknown. Without a known kernel, eager takes its place.
    """
    if not verdict.outcome.accepted:
        return -1.0, -1.0 if verdict.outcome.category is Category.CHEATING else 0.0
    timing = verdict.timing
    ratio = None if timing is None else timing.over_known()
    if ratio is None and timing is not None:
        ratio = timing.speedup_ci["eager"][0]
    if ratio is None or not ratio > 0:
        return -1.0, 1.0
    doublings = _steps(min(max(ratio, 0.25), 4.0)) * math.log1p(STEP) / math.log(2.0)
    return max(-1.0, min(1.0, doublings)), 1.0


PRESETS: Mapping[str, Callable[[Verdict], Segments]] = {
    "toronto-frontend": toronto_frontend, "toronto-midend": toronto_midend, "autotriton": autotriton,
    "usable": usable, "tritonrl": tritonrl, "kevin": kevin, "drkernel": drkernel, "wright": wright,
    "plans": plans,
}  # fmt: skip


UNTIMED = frozenset(["toronto-frontend", "autotriton", "usable"])
"""Presets that need no measured time: they pay every correct candidate equally, or by a rough modelled time."""


def discounted_returns(turns: Sequence[Reward], gamma: float = 0.4) -> list[Reward]:
    """Returns of a conversation's turns: each turn's reward plus gamma times the return of the next.

    Discounting goes backward: a turn is rewarded for later turns, never for earlier ones (Kevin: sum, gamma 0.4). A turn without
    a reward stays without one and adds nothing to earlier turns.
    """
    returns: list[Reward] = []
    plan = code = 0.0
    for turn in reversed(turns):
        known = turn.plan is not None and turn.code is not None
        plan, code = (turn.plan or 0.0) + gamma * plan, (turn.code or 0.0) + gamma * code
        returns.append(turn.model_copy(update={"plan": plan, "code": code}) if known else turn)
    return returns[::-1]


def _halves(total: float) -> Segments:
    return total / 2, total / 2


def _speedup(verdict: Verdict) -> float:
    """Eager time over the candidate's; 0 if a correct candidate was not timed."""
    return verdict.speedup() or 0.0


def _speed_term(verdict: Verdict) -> float:
    """The plan's reward for a correct candidate: `PAY` at the speedup that is certain, in whole steps."""
    low = 0.0 if verdict.timing is None else verdict.timing.speedup_ci["eager"][0]
    if not low > 0:  # also NaN
        return PAY[0][1]
    steps = _steps(min(low, PAY[-1][0]))
    axis = [math.log(speedup) for speedup, _ in PAY]
    return float(np.interp(steps * math.log1p(STEP), axis, [pay for _, pay in PAY]))


def _steps(ratio: float) -> int:
    """Whole steps of speed, rounded towards parity, so that the dead band around it reaches from 1/1.05 to 1.05."""
    exact = math.log(ratio) / math.log1p(STEP)
    return math.trunc(exact + math.copysign(1e-9, exact))  # a tiny outward shift, against rounding


assert {o for o in Outcome if o.judged and o.category is not Category.CHEATING} - set(_LADDER) == {
    Outcome.CORRECT
}
