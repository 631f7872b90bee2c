"""From a verdict to a reward, a number for the plan and one for the code. Pure functions, named presets.

Nothing but the verdict enters a preset. A verdict without a fair verdict (`unsupported`, `infrastructure_error`) gives
None for both segments under every preset, and so does a reward that is no finite number. A preset whose source
pays one number for the whole completion gives half of it to each segment, so that `Reward.total` is the
source's number under uniform credit and both segments learn under hierarchical credit. A correct candidate that
could not be timed is paid for its correctness only: the least that a correct candidate of the preset can get.
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
    """The reward of `verdict` under a preset, or a user's function (`my_reward.py:reward`).

    A user's function is given the verdict, and of `context` (candidate, completion) what its parameters name; it
    returns a number, (plan, code), or None for no reward. Raises UserError for an unknown preset and for a function
    that cannot be loaded, raises, or returns something else.
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
    """Raises UserError, listing the presets, unless `preset` is one, or names a user's function that can be loaded."""
    if extensions.names_function(preset):
        extensions.load(preset, "reward")
    elif preset not in PRESETS:
        raise UserError(
            f"unknown reward preset {preset!r}; valid: {', '.join(PRESETS)}, or a function of yours as "
            f"{extensions.FORM}"
        )


def _own(spec: str, verdict: Verdict, context: Mapping[str, Any]) -> Segments | None:
    """What a user's function pays."""
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
    """Rule times execution, each 0 or 1: is it Triton at all, and do the tests pass.

    Source: AutoTriton (Li et al. 2025, arXiv 2507.05687). The rule there looks for `@triton.jit`; here it is that
    the code is well formed and was not caught cheating, which also counts a kernel that only decorates torch.
    """
    rule = verdict.outcome.well_formed and verdict.outcome.category is not Category.CHEATING
    return _halves(float(rule) * float(verdict.correct))


SLOW, PAID_WHERE_SLOW = 0.3, 0.25
"""Speedup over eager below which `usable` pays less, far enough from 1 for the cost model's errors, and what."""


def usable(verdict: Verdict) -> Segments:
    """1 for what is right, a quarter where that is far slower than eager or nobody knows, else 0.

    Source: ours, for stages that ask for correctness and clock nothing: the cost model will do. Under `autotriton` a policy
    found out that tiles of four elements are as right as any (docs/history/log.md).
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

    Source: Dr.Kernel (Liu et al. 2026, arXiv 2602.05885). The share is the evidence's `own_share`; where torch computed
    nothing it is 1, and where it did and nobody measured the share, 0.
    """
    if not verdict.correct:
        return _halves(0.0)
    share = verdict.evidence.own_share
    if share is None:
        share = 0.0 if verdict.evidence.aten_ops else 1.0
    return _halves(1.0 + min(_speedup(verdict), 3.0) + min(max(share, 0.0), 1.0))


STEP = 0.05
"""Speed counts in whole steps of 5 %, several times the noise of an interleaved median: within a group of equally
fast kernels, noise then gives no advantage, which scaling by the standard deviation would blow up."""
PAY = ((1 / 8, -0.75), (1.0, 0.0), (4.0, 0.8), (64.0, 1.0))
"""(speedup over eager, what it pays), joined by straight lines over the logarithm and flat at both ends. Most is
paid up to 4x; the tail is for tasks whose roofline lies far above eager, so that 8x is still better than 4x."""
_CORRECT, _SPEED_SHARE = 0.75, 0.25

_LADDER: Mapping[Outcome, float] = {
    # Nothing to learn from, or nothing honest: the floor. An empty answer is not worth more than a decoy, nor less.
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
    # Is it right?
    Outcome.WRONG_STRUCTURE: -0.1,
    Outcome.WRONG_SHAPE: -0.1,
    Outcome.WRONG_DTYPE: -0.1,
    Outcome.UNWRITTEN: 0.0,
    Outcome.NON_FINITE: 0.0,
    Outcome.WRONG_VALUE: 0.0,
    # Right on some cases.
    Outcome.WRONG_ON_DISTRIBUTION: 0.2,
    Outcome.WRONG_ON_SHAPE: 0.25,
    Outcome.LOW_PRECISION: 0.3,
    Outcome.NONDETERMINISTIC: 0.3,
    # Nothing was found wrong, and part could not be checked: neither paid nor punished.
    Outcome.UNPROVEN: 0.0,
}
_CAP = {Gate.PARSE: -0.7, Gate.STATIC: -0.7, Gate.LOAD: -0.5, Gate.TRACE: -0.35, Gate.COMPILE: -0.35}
"""The most a failure at a gate gets, whatever its name: a time-out while loading is no run."""


def wright(verdict: Verdict) -> Segments:
    """The default, ours: bounded in [-1, 1] per segment, graded along the funnel, speed in coarse steps.

    Code: a failure gets its rung of the funnel, from -1 to 0.3; a correct candidate 0.75 plus a quarter of the
    plan's speed term, because block sizes, warps and stages are written in the code. Plan: -1 for a failure; for
    a correct candidate the speed term: the lower end of the interval of its speedup over eager, in whole steps of
    5 %, on the scale of `PAY`, within [-0.75, 1]. Cheating gets -1 for both.

    What it asks of an optimiser: every correct candidate, however slow, beats every incorrect one in each segment
    (plan -0.75 > -1, code 0.56 > 0.3) and so in any weighting of them; the bottom rungs are level, so that neither
    silence nor a decoy is a way out; avoiding the timer pays like the slowest kernel; and no single verdict can
    outweigh a group, however large the speedup it claims.
    """
    if verdict.outcome.accepted:
        speed = _speed_term(verdict)
        return speed, _CORRECT + _SPEED_SHARE * speed
    if verdict.outcome.category is Category.CHEATING:
        return -1.0, -1.0
    rung = _LADDER[verdict.outcome]
    return -1.0, max(-1.0, min(rung, _CAP.get(verdict.gate, rung)))


def plans(verdict: Verdict) -> Segments:
    """Plan: the speed over the best kernel that was known, in whole steps of 5 %, doublings within [-1, 1]. Code: 1 where it is
    right, else 0; -1 for cheating.

    Source: ours, after TritonRL: a plan is paid for its time, code for doing what the plan says. A wrong kernel's plan gets
    what one of twice the time gets, for nobody knows its own. Where no kernel is known, eager is.
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
    "toronto-frontend": toronto_frontend,
    "toronto-midend": toronto_midend,
    "autotriton": autotriton,
    "usable": usable,
    "tritonrl": tritonrl,
    "kevin": kevin,
    "drkernel": drkernel,
    "wright": wright,
    "plans": plans,
}


UNTIMED = frozenset(["toronto-frontend", "autotriton", "usable"])
"""Presets that ask for no time: they pay every correct candidate alike, or by a rough price."""


def discounted_returns(turns: Sequence[Reward], gamma: float = 0.4) -> list[Reward]:
    """Returns of a conversation's turns: each turn's reward plus gamma times the return of the next.

    Discounting goes backward, so that a turn is paid for what it made possible, never for what came before
    (Kevin: sum, gamma 0.4). A turn without a reward stays without and adds nothing to the turns before it.
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
    """Eager time over the candidate's; 0 where a correct candidate was not timed."""
    return verdict.speedup() or 0.0


def _speed_term(verdict: Verdict) -> float:
    """The plan's reward for a correct candidate: `PAY` at the steps it is known to be faster or slower than eager."""
    low = 0.0 if verdict.timing is None else verdict.timing.speedup_ci["eager"][0]
    if not low > 0:  # also NaN
        return PAY[0][1]
    steps = _steps(min(low, PAY[-1][0]))
    axis = [math.log(speedup) for speedup, _ in PAY]
    return float(np.interp(steps * math.log1p(STEP), axis, [pay for _, pay in PAY]))


def _steps(ratio: float) -> int:
    """Whole steps of speed towards parity, so that the dead band there reaches from 1/1.05 to 1.05."""
    exact = math.log(ratio) / math.log1p(STEP)
    return math.trunc(exact + math.copysign(1e-9, exact))  # a hair further against rounding


assert {o for o in Outcome if o.judged and o.category is not Category.CHEATING} - set(_LADDER) == {
    Outcome.CORRECT
}
