"""Rewards: each preset by hand, and how an optimiser could exploit the default one."""

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.errors import UserError
from kernelwright.outcomes import Category, Gate, Outcome
from kernelwright.records import Cost, Evidence, Reward, Timing, Verdict
from kernelwright.rewards import PAY, PRESETS, discounted_returns, reward

SLOWEST = PAY[0][1]
UNJUDGED = [outcome for outcome in Outcome if not outcome.judged]
FAILURES = [outcome for outcome in Outcome if outcome.judged and not outcome.accepted]
CHEATS = [outcome for outcome in FAILURES if outcome.category is Category.CHEATING]
HONEST = [outcome for outcome in FAILURES if outcome.category is not Category.CHEATING]


def failed(outcome: Outcome, gate: Gate = Gate.SMALL) -> Verdict:
    return Verdict(task_id="t", outcome=outcome, gate=gate)


def correct(speedup: float | None = 1.0, low: float | None = None, **evidence: Any) -> Verdict:
    """An accepted verdict: eager takes `speedup` ms and the candidate 1; `low` is the interval's lower end."""
    timing = None
    if speedup is not None:
        interval = {"eager": (speedup if low is None else low, speedup * 1.1)}
        timing = Timing(
            kind="measured",
            target="h200",
            candidate_ms=1.0,
            candidate_ci=(0.9, 1.1),
            baseline_ms={"eager": speedup},
            speedup_ci=interval,
        )
    return Verdict(
        task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING, timing=timing, evidence=Evidence(**evidence)
    )


def segments(preset: str, verdict: Verdict) -> tuple[float | None, float | None]:
    given_ = reward(preset, verdict)
    assert given_.preset == preset
    return given_.plan, given_.code


def numbers(verdict: Verdict) -> tuple[float, float]:
    """The default preset's (plan, code) of a judged verdict."""
    plan, code = segments("wright", verdict)
    assert plan is not None
    assert code is not None
    return plan, code


def total(preset: str, verdict: Verdict) -> float:
    value = reward(preset, verdict).total
    assert value is not None
    return value


# -- what holds of every preset


def test_the_presets() -> None:
    assert set(PRESETS) == {
        "plans", "toronto-frontend", "toronto-midend", "autotriton", "usable", "tritonrl", "kevin", "drkernel", "wright",
    }  # fmt: skip


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_names_its_source(preset: str) -> None:
    doc = PRESETS[preset].__doc__ or ""
    assert "Source:" in doc or "ours" in doc


def test_an_unknown_preset_is_the_users_error() -> None:
    with pytest.raises(
        UserError, match=r"unknown reward preset 'wrigth'; valid: toronto-frontend, .*wright"
    ) as caught:
        reward("wrigth", correct())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("outcome", UNJUDGED)
def test_no_fair_verdict_is_no_reward(preset: str, outcome: Outcome) -> None:
    assert segments(preset, failed(outcome)) == (None, None)
    assert reward(preset, failed(outcome)).total is None


@pytest.mark.parametrize("preset", PRESETS)
def test_every_failure_has_a_finite_reward_below_any_correct_candidates(preset: str) -> None:
    worst = min(total(preset, correct(None)), total(preset, correct(1e-6)))
    for outcome, gate in itertools.product(FAILURES, Gate):
        assert -math.inf < total(preset, failed(outcome, gate)) < worst, (outcome, gate)


@pytest.mark.parametrize("preset", PRESETS)
@given(
    speedup=st.floats(min_value=1e-300, max_value=1e300),
    low=st.floats(allow_nan=True, allow_infinity=True),
    share=st.one_of(st.none(), st.floats(0, 1)),
)
def test_no_timing_raises_or_gives_a_number_that_is_not_finite(
    preset: str, speedup: float, low: float, share: float | None
) -> None:
    for value in segments(preset, correct(speedup, low)):
        assert value is None or math.isfinite(value)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_ratio_beyond_floats_is_no_reward_or_a_bounded_one(preset: str) -> None:
    timing = correct(1.0).timing
    assert timing is not None
    absurd = timing.model_copy(update={"baseline_ms": {"eager": 1e308}, "candidate_ms": 1e-308})
    assert all(
        value is None or math.isfinite(value)
        for value in segments(preset, correct().model_copy(update={"timing": absurd}))
    )


# -- by hand


def test_toronto_frontend() -> None:
    assert total("toronto-frontend", failed(Outcome.COMPILE_ERROR)) == -10
    assert total("toronto-frontend", failed(Outcome.WRONG_VALUE)) == -10
    assert total("toronto-frontend", failed(Outcome.TORCH_COMPUTE)) == -10
    assert total("toronto-frontend", correct(7.0)) == 1
    assert segments("toronto-frontend", correct(7.0)) == (0.5, 0.5)


def test_toronto_midend() -> None:
    assert total("toronto-midend", failed(Outcome.WRONG_VALUE)) == -10
    assert total("toronto-midend", correct(0.5)) == 1.5
    assert total("toronto-midend", correct(3.25)) == 4.25
    assert total("toronto-midend", correct(None)) == 1


def test_usable_asks_the_clock_or_else_the_cost_model() -> None:
    def cost(ms: float) -> Cost:
        return Cost(target="h200", bytes=1.0, l2_bytes=1.0, flops=1.0, launches=1, ms=ms, roofline_ms=1.0)

    assert total("usable", failed(Outcome.WRONG_VALUE)) == 0
    assert total("usable", correct(0.31)) == 1
    assert total("usable", correct(0.29)) == 0.25
    assert total("usable", correct(None)) == 0.25
    assert total("usable", correct(None, cost=cost(3.0), reference_cost=cost(1.0))) == 1
    assert total("usable", correct(None, cost=cost(4.0), reference_cost=cost(1.0))) == 0.25
    assert total("usable", correct(2.0, cost=cost(4.0), reference_cost=cost(1.0))) == 1
    assert segments("usable", correct(1.0)) == (0.5, 0.5)


def test_autotriton() -> None:
    assert total("autotriton", correct(9.0)) == 1
    assert total("autotriton", failed(Outcome.NOT_TRITON)) == 0
    assert total("autotriton", failed(Outcome.WRONG_VALUE)) == 0
    assert total("autotriton", failed(Outcome.DECOY_KERNEL)) == 0


def test_tritonrl_pays_the_plan_by_speed_and_the_code_by_correctness() -> None:
    assert segments("tritonrl", correct(2.5)) == (2.5, 1)
    assert segments("tritonrl", correct(None)) == (0, 1)
    assert segments("tritonrl", failed(Outcome.SYNTAX_ERROR)) == (0, 0)
    assert segments("tritonrl", failed(Outcome.TORCH_COMPUTE)) == (0, 0)


def test_kevin() -> None:
    assert total("kevin", correct(1.5)) == pytest.approx(1.8)
    assert total("kevin", correct(None)) == pytest.approx(0.3)
    assert total("kevin", failed(Outcome.WRONG_VALUE)) == 0


def test_kevin_discounts_backward() -> None:
    turns = [Reward(preset="kevin", plan=0.0, code=score) for score in (0.0, 1.0, 2.0)]
    # 2; 1 + 0.4 * 2 = 1.8; 0 + 0.4 * 1.8 = 0.72
    assert [turn.total for turn in discounted_returns(turns)] == pytest.approx([0.72, 1.8, 2.0])


def test_one_fast_last_turn_is_worth_more_to_the_first_than_three_mediocre_ones_are_to_the_last() -> None:
    late = discounted_returns([Reward(preset="kevin", plan=0, code=score) for score in (0.0, 0.0, 4.0)])
    steady = discounted_returns([Reward(preset="kevin", plan=0, code=score) for score in (1.0, 1.0, 1.0)])
    assert late[-1].total == 4
    assert steady[-1].total == 1


def test_a_turn_without_a_reward_stays_without_and_adds_nothing() -> None:
    none = Reward(preset="kevin", plan=None, code=None)
    turns = [Reward(preset="kevin", plan=1, code=1), none, Reward(preset="kevin", plan=2, code=3)]
    first, middle, last = discounted_returns(turns)
    assert middle == none
    assert (first.plan, first.code) == (pytest.approx(1 + 0.16 * 2), pytest.approx(1 + 0.16 * 3))
    assert (last.plan, last.code) == (2, 3)
    assert discounted_returns([]) == []


def test_drkernel() -> None:
    assert total("drkernel", correct(2.0)) == 1 + 2 + 1
    assert total("drkernel", correct(50.0)) == 1 + 3 + 1
    assert total("drkernel", correct(None)) == 1 + 0 + 1
    assert total("drkernel", failed(Outcome.WRONG_VALUE)) == 0


def test_drkernel_takes_the_measured_share_of_gpu_time() -> None:
    verdict = correct(2.0).model_copy(update={"evidence": Evidence(own_share=0.25)})
    assert total("drkernel", verdict) == 1 + 2 + 0.25


def test_drkernel_pays_no_share_that_nobody_measured_where_torch_computed() -> None:
    verdict = correct(2.0).model_copy(update={"evidence": Evidence(aten_ops={"aten.mm.default": 1})})
    assert total("drkernel", verdict) == 1 + 2


def test_unproven_is_not_paid_and_is_no_cheating() -> None:
    assert segments("wright", failed(Outcome.UNPROVEN)) == (-1.0, 0.0)
    assert total("autotriton", failed(Outcome.UNPROVEN)) == 0


# -- wright


def test_wright_by_hand() -> None:
    assert segments("wright", correct(1.0)) == (0, 0.75)
    # 2x is 14 whole steps of 5 %: 1.05 ** 14 = 1.98, log4 of that is 0.4927, and 4x pays 0.8.
    assert segments("wright", correct(2.0)) == (
        pytest.approx(0.8 * 0.4927, abs=1e-4),
        pytest.approx(0.75 + 0.25 * 0.8 * 0.4927, abs=1e-4),
    )
    # 4x is 28 steps, a little under 0.8; 16x is halfway from 4x to 64x, less at most a step.
    assert numbers(correct(4.0))[0] == pytest.approx(0.8 * 2 * 0.4927, abs=1e-4)
    assert numbers(correct(16.0))[0] == pytest.approx(0.9, abs=0.004)
    assert segments("wright", correct(100.0)) == (pytest.approx(1, abs=0.004), pytest.approx(1, abs=0.001))
    # 0.5x is 14 steps the other way; 1/8 pays -0.75 and is log2 of three halvings.
    assert numbers(correct(0.5))[0] == pytest.approx(-0.75 * 2 * 0.4927 / 3, abs=1e-4)
    assert segments("wright", correct(0.01)) == (SLOWEST, 0.75 + 0.25 * SLOWEST)
    assert segments("wright", correct(None)) == (SLOWEST, 0.75 + 0.25 * SLOWEST)
    assert segments("wright", failed(Outcome.WRONG_VALUE)) == (-1, 0)
    assert segments("wright", failed(Outcome.COMPILE_ERROR, Gate.COMPILE)) == (-1, -0.4)
    assert segments("wright", failed(Outcome.TORCH_COMPUTE, Gate.CAUSALITY)) == (-1, -1)


def test_speed_counts_by_the_lower_end_of_its_interval() -> None:
    assert segments("wright", correct(3.0, low=1.0)) == segments("wright", correct(1.0))


@given(st.floats(0.953, 1.049))
def test_parity_within_the_dead_band_is_parity(speedup: float) -> None:
    assert segments("wright", correct(speedup)) == (0, 0.75)


@given(st.floats(1 / 8, 64))
def test_noise_well_below_a_step_moves_the_reward_by_at_most_one_step(speedup: float) -> None:
    one, other = numbers(correct(speedup))[0], numbers(correct(speedup * 1.01))[0]
    assert 0 <= other - one <= math.log(1.05) / math.log(4) + 1e-9


@given(st.floats(1e-9, 1e9), st.floats(1.0, 1e3))
def test_faster_is_never_paid_less(speedup: float, factor: float) -> None:
    slow, fast = numbers(correct(speedup)), numbers(correct(speedup * factor))
    assert fast[0] >= slow[0]
    assert fast[1] >= slow[1]


def test_each_doubling_pays() -> None:
    paid = [total("wright", correct(speedup)) for speedup in (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)]
    assert paid == sorted(set(paid))


@given(st.sampled_from(FAILURES), st.sampled_from(list(Gate)), st.floats(1e-9, 1e9), st.floats(0, 10))
def test_a_correct_kernel_however_slow_beats_any_failure_in_any_weighting(
    outcome: Outcome, gate: Gate, speedup: float, alpha: float
) -> None:
    plan, code = numbers(correct(speedup))
    wrong_plan, wrong_code = numbers(failed(outcome, gate))
    assert plan > wrong_plan
    assert code > wrong_code
    assert alpha * plan + code > alpha * wrong_plan + wrong_code


@given(st.sampled_from(list(Outcome)), st.sampled_from(list(Gate)), st.floats(1e-9, 1e9))
def test_each_segment_is_bounded(outcome: Outcome, gate: Gate, speedup: float) -> None:
    verdict = correct(speedup) if outcome.accepted else failed(outcome, gate)
    assert all(value is None or -1 <= value <= 1 for value in segments("wright", verdict))


def test_the_code_climbs_the_funnel() -> None:
    rungs = [
        failed(Outcome.SYNTAX_ERROR, Gate.PARSE),
        failed(Outcome.NO_ENTRY, Gate.STATIC),
        failed(Outcome.LOAD_ERROR, Gate.LOAD),
        failed(Outcome.COMPILE_ERROR, Gate.COMPILE),
        failed(Outcome.RUNTIME_ERROR),
        failed(Outcome.WRONG_SHAPE),
        failed(Outcome.WRONG_VALUE),
        failed(Outcome.WRONG_ON_DISTRIBUTION),
        failed(Outcome.WRONG_ON_SHAPE),
        correct(1e-9),
        correct(1.0),
    ]
    codes = [numbers(rung)[1] for rung in rungs]
    assert codes == sorted(set(codes))


def test_cheating_never_pays_more_than_honest_failure() -> None:
    least = min(segments("wright", failed(honest, gate)) for honest in HONEST for gate in Gate)
    assert {segments("wright", failed(cheat, gate)) for cheat in CHEATS for gate in Gate} == {(-1, -1)}
    assert least == (-1, -1)


def test_plain_torch_pays_no_more_than_a_kernel_that_does_not_parse() -> None:
    assert total("wright", failed(Outcome.NOT_TRITON, Gate.STATIC)) < total(
        "wright", failed(Outcome.SYNTAX_ERROR, Gate.PARSE)
    )


def test_a_time_out_while_loading_is_no_run() -> None:
    loading, running = failed(Outcome.TIMEOUT, Gate.LOAD), failed(Outcome.TIMEOUT, Gate.SMALL)
    assert total("wright", loading) < total("wright", failed(Outcome.COMPILE_ERROR, Gate.COMPILE))
    assert total("wright", running) > total("wright", failed(Outcome.COMPILE_ERROR, Gate.COMPILE))


# -- plans over the best that is known


def over_known(ratio: float, kind: str = "measured", low: float = 1.0) -> Verdict:
    """An accepted verdict with the best known time at `ratio` times its own; the interval ends at 1 / low."""
    verdict = correct(8.0)
    assert verdict.timing is not None
    changed = {"known_ms": ratio, "kind": kind, "candidate_ci": (0.9, 1.0 / low)}
    return verdict.model_copy(update={"timing": verdict.timing.model_copy(update=changed)})


@pytest.mark.parametrize(
    ("ratio", "paid"), [(1.0, 0.0), (1.04, 0.0), (2.0, 0.985), (0.5, -0.985), (64.0, 1.0), (0.01, -1.0)]
)
def test_a_plan_is_paid_in_doublings_of_its_speed_over_the_best_known(ratio: float, paid: float) -> None:
    assert segments("plans", over_known(ratio)) == (pytest.approx(paid, abs=1e-3), 1.0)


def test_a_measured_time_counts_by_the_end_of_its_interval_and_a_modelled_one_as_it_is() -> None:
    assert segments("plans", over_known(1.2, low=0.8))[0] == 0.0
    assert segments("plans", over_known(1.2, "modelled", low=0.8))[0] == pytest.approx(3 * math.log2(1.05))


def test_without_a_known_kernel_eager_stands_in() -> None:
    assert segments("plans", correct(4.0, low=2.2)) == (pytest.approx(1.0), 1.0)


def test_wrong_code_and_cheating() -> None:
    assert segments("plans", failed(Outcome.WRONG_VALUE)) == (-1.0, 0.0)
    assert segments("plans", failed(CHEATS[0])) == (-1.0, -1.0)
