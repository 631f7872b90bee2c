"""Metrics: estimators against brute force, tables against hand counts."""

import itertools
import json
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.graph.capture import capture
from kernelwright.metrics import (
    bootstrap_interval,
    fast_p,
    fast_p_at_k,
    geometric_mean,
    geometric_mean_interval,
    mean,
    pass_at_k,
    plan_entropy,
    share_interval,
    summarise,
)
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import (
    Candidate,
    Completion,
    Message,
    Prompt,
    Reward,
    Rollout,
    Task,
    Timing,
    Verdict,
)

SPEEDUPS = st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=20)


def rollout(
    outcome: Outcome,
    speedup: float | None = None,
    task: str = "wright/relu",
    *,
    tokens: int = 10,
    total: float | None = None,
    finish: str = "stop",
) -> Rollout:
    """One sample; `speedup` is over eager, half as much over torch.compile."""
    timing = None
    if speedup is not None:
        baselines = {"eager": speedup, "compile": speedup / 2}
        timing = Timing(
            kind="modelled",
            target="h200",
            candidate_ms=1.0,
            candidate_ci=(1.0, 1.0),
            baseline_ms=baselines,
            speedup_ci={name: (value, value) for name, value in baselines.items()},
        )
    return Rollout(
        task_id=task,
        stage="eval",
        prompt=Prompt(
            task_id=task, agent="frontend", messages=(Message(role="user", content="?"),), max_tokens=9
        ),
        completion=Completion(text="x", token_ids=tuple(range(tokens)), finish_reason=finish),
        candidate=Candidate(code="x"),
        verdict=Verdict(task_id=task, outcome=outcome, gate=Gate.TIMING, timing=timing),
        reward=None if total is None else Reward(preset="wright", plan=0.0, code=total),
        seconds={"generate": 1.0, "total": 3.0},
    )


# -- estimators


@given(st.integers(1, 7), st.data())
def test_pass_at_k_is_the_share_of_draws_that_hold_a_correct_one(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    draws = list(itertools.combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(map(any, draws)) / len(draws))


def test_pass_at_k_by_hand() -> None:
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert pass_at_k(4, 2, 2) == pytest.approx(5 / 6)
    assert pass_at_k(5, 0, 5) == 0
    assert pass_at_k(5, 5, 1) == 1
    assert pass_at_k(5, 4, 2) == 1
    assert pass_at_k(10_000, 1, 100) == pytest.approx(0.01)


@pytest.mark.parametrize(("n", "c", "k"), [(0, 0, 1), (3, 4, 1), (3, -1, 1), (3, 1, 0), (3, 1, 4)])
def test_pass_at_k_outside_of_its_domain(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"n={n}, c={c}, k={k}"):
        pass_at_k(n, c, k)


def test_fast_p_is_strict_and_a_failure_is_not_fast() -> None:
    assert fast_p([None, 0.5, 1.0, 1.2], 1.0) == 0.25
    assert fast_p([None, 0.5, 1.0, 1.2], 0.0) == 0.75
    with pytest.raises(ValueError, match="no samples"):
        fast_p([], 1.0)


def test_fast_p_at_k_by_hand() -> None:
    assert fast_p_at_k([None, 2.0, 0.5, 3.0], 1.0, 2) == pytest.approx(5 / 6)
    assert fast_p_at_k([None, 2.0, 0.5, 3.0], 5.0, 4) == 0


@given(st.lists(st.one_of(st.none(), st.floats(0.01, 100)), min_size=1, max_size=10), st.data())
def test_fast_0_at_k_is_pass_at_k(speedups: list[float | None], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(speedups)))
    right = sum(s is not None for s in speedups)
    assert fast_p_at_k(speedups, 0.0, k) == pass_at_k(len(speedups), right, k)


def test_geometric_mean_by_hand() -> None:
    assert geometric_mean([0.5, 2.0]) == pytest.approx(1.0)
    assert geometric_mean([1.0, 2.0, 4.0]) == pytest.approx(2.0)
    assert geometric_mean([1e-300] * 3) == pytest.approx(1e-300)


@pytest.mark.parametrize("values", [[], [0.0], [1.0, -1.0], [math.inf], [math.nan]])
def test_geometric_mean_outside_of_its_domain(values: list[float]) -> None:
    with pytest.raises(ValueError, match="geometric mean of"):
        geometric_mean(values)


@given(SPEEDUPS)
def test_geometric_mean_lies_among_its_values_and_inverts_with_them(values: list[float]) -> None:
    found = geometric_mean(values)
    assert min(values) * (1 - 1e-9) <= found <= max(values) * (1 + 1e-9)
    assert geometric_mean([1 / v for v in values]) == pytest.approx(1 / found)


# -- intervals


@given(SPEEDUPS)
def test_an_interval_lies_among_the_values(values: list[float]) -> None:
    for statistic in (mean, geometric_mean, max):
        low, high = bootstrap_interval(values, statistic, resamples=50)
        assert min(values) * (1 - 1e-9) <= low <= high <= max(values) * (1 + 1e-9)


def test_an_interval_is_the_same_every_time_and_another_for_another_seed() -> None:
    values = [0.1, 0.7, 0.2, 0.9, 0.4]
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval(values) != bootstrap_interval(values, seed=1)


def test_one_value_gives_no_width_and_none_is_an_error() -> None:
    assert bootstrap_interval([0.3]) == (0.3, 0.3)
    with pytest.raises(ValueError, match="no values"):
        bootstrap_interval([])


def test_tasks_that_all_agree_leave_as_much_open_as_their_number_says() -> None:
    low, high = share_interval([1.0] * 100)
    assert (round(low, 4), high) == (0.9638, 1.0)
    assert share_interval([0.0] * 100) == pytest.approx((0.0, 1 - low))
    assert share_interval([1.0, 0.0, 0.5]) == bootstrap_interval([1.0, 0.0, 0.5])


def test_the_interval_of_a_mean_is_that_of_the_normal_law() -> None:
    values = [float(i % 10) for i in range(1000)]
    low, high = bootstrap_interval(values)
    half = 1.96 * math.sqrt(8.25 / 1000)
    assert low == pytest.approx(4.5 - half, abs=0.03)
    assert high == pytest.approx(4.5 + half, abs=0.03)


def test_many_values_are_drawn_in_parts() -> None:
    low, high = bootstrap_interval([float(i % 2) for i in range(3_000_000)], resamples=4)
    assert 0.49 < low <= high < 0.51


def test_resampling_tasks_gives_a_wider_interval_than_resampling_their_samples() -> None:
    groups = [[speed * (1 + i / 100) for i in range(8)] for speed in (0.5, 1.0, 2.0, 4.0)]
    low, high = geometric_mean_interval(groups)
    flat = bootstrap_interval([s for group in groups for s in group], geometric_mean)
    assert low < flat[0]
    assert flat[1] < high
    assert low <= geometric_mean([s for group in groups for s in group]) <= high


def test_groups_without_values_are_passed_over() -> None:
    assert geometric_mean_interval([[2.0], [], []]) == (2.0, 2.0)
    with pytest.raises(ValueError, match="no values"):
        geometric_mean_interval([[], []])


# -- tables


SAMPLES: Sequence[Rollout] = [
    rollout(Outcome.CORRECT, 2.0, total=1.0),
    rollout(Outcome.CORRECT, 0.5, total=0.5),
    rollout(Outcome.WRONG_VALUE, total=-0.5),
    rollout(Outcome.SYNTAX_ERROR, total=-1.0, tokens=30, finish="length"),
    rollout(Outcome.CORRECT, 4.0, "wright/gelu", total=1.0),
    rollout(Outcome.CORRECT, None, "wright/gelu", total=0.0),
    rollout(Outcome.INFRASTRUCTURE_ERROR, None, "wright/gelu"),
    rollout(Outcome.COMPILE_ERROR, None, "kernelbench/level2/3_Foo", total=-1.0),
    rollout(Outcome.UNSUPPORTED, None, "kernelbench/level2/3_Foo"),
]


def test_a_table_by_hand() -> None:
    table = summarise(SAMPLES)
    assert (table["tasks"], table["samples"], table["judged"]) == (3, 9, 7)
    assert table["unjudged"] == {"unsupported": 1, "infrastructure_error": 1}
    assert table["correct"] == 4
    assert table["solved"] == 2
    assert table["correct_rate"] == pytest.approx(4 / 7)
    assert table["format_rate"] == pytest.approx(6 / 7)
    assert table["compile_rate"] == pytest.approx(5 / 7)
    assert table["pass_at_k"] == {"1": pytest.approx((0.5 + 1 + 0) / 3)}
    assert table["fast_p"] == {
        "1": pytest.approx(2 / 7),
        "1.5": pytest.approx(2 / 7),
        "2": pytest.approx(1 / 7),
    }
    assert table["fast_p_at_k"]["1"] == {"1": pytest.approx((0.25 + 0.5 + 0) / 3)}
    assert table["speedup"]["eager"]["geometric_mean"] == pytest.approx(4 ** (1 / 3))
    assert table["speedup"]["eager"]["samples"] == 3
    assert table["speedup"]["eager"]["best"] == 4.0
    assert table["speedup"]["faster"] == table["speedup"]["compile"]
    assert table["speedup"]["compile"]["geometric_mean"] == pytest.approx(0.5 ** (1 / 3))
    assert table["timing"] == "modelled"
    assert table["reward"] == pytest.approx(0.0)
    assert table["outcomes"] == {
        "syntax_error": 1, "compile_error": 1, "wrong_value": 1, "correct": 4, "unsupported": 1, "infrastructure_error": 1,
    }  # fmt: skip
    assert table["categories"] == {
        "format": 1, "compile": 1, "wrong_result": 1, "correct": 4, "unsupported": 1, "infrastructure": 1,
    }  # fmt: skip
    assert table["tokens"] == pytest.approx((8 * 10 + 30) / 9)
    assert table["clipped"] == pytest.approx(1 / 9)
    assert table["seconds"] == {"generate": 1.0, "total": 3.0}


def test_tables_by_suite_and_level() -> None:
    table = summarise(SAMPLES)
    assert list(table["suites"]) == ["kernelbench/level2", "wright"]
    assert table["suites"]["wright"]["correct_rate"] == pytest.approx(4 / 6)
    assert table["levels"]["2"]["judged"] == 1
    assert table["families"] == {}


def test_tables_by_family_and_difficulty_when_the_tasks_are_known() -> None:
    tasks = [
        Task(id="wright/relu", suite="wright", source="x", family="activation", difficulty=1),
        Task(id="wright/gelu", suite="wright", source="x", family="activation", difficulty=3),
    ]
    table = summarise(SAMPLES, tasks)
    assert table["families"]["activation"]["correct_rate"] == pytest.approx(4 / 6)
    assert table["levels"]["3"]["tasks"] == 1
    assert table["levels"]["2"]["tasks"] == 1


def test_a_failure_has_no_speedup() -> None:
    table = summarise([rollout(Outcome.WRONG_VALUE), rollout(Outcome.CORRECT, 3.0)])
    assert table["speedup"]["eager"]["geometric_mean"] == pytest.approx(3.0)
    assert table["fast_p"]["1"] == 0.5


def test_samples_without_a_fair_verdict_change_no_rate() -> None:
    judged = [r for r in SAMPLES if r.verdict.outcome.judged]
    with_, without = summarise(SAMPLES), summarise(judged)
    for key in ("correct_rate", "format_rate", "compile_rate", "pass_at_k", "fast_p", "speedup", "reward"):
        assert with_[key] == without[key]


@pytest.mark.parametrize("rollouts", [[], [rollout(Outcome.UNSUPPORTED)]])
def test_nothing_judged_is_none_not_zero(rollouts: list[Rollout]) -> None:
    table = summarise(rollouts)
    assert table["judged"] == table["correct"] == 0
    for key in ("correct_rate", "correct_rate_ci", "format_rate", "compile_rate", "reward", "timing"):
        assert table[key] is None
    assert table["pass_at_k"] == {}
    assert table["fast_p"]["1"] is None
    assert table["speedup"]["eager"]["geometric_mean"] is None


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(Outcome)), st.one_of(st.none(), st.floats(1e-3, 1e3)), st.sampled_from("abc")
        ),
        max_size=25,
    )
)
def test_any_log_gives_a_table_of_plain_json_with_shares_in_range(
    rows: list[tuple[Outcome, float | None, str]],
) -> None:
    table = summarise(
        rollout(outcome, speedup if outcome.accepted else None, f"s/{name}")
        for outcome, speedup, name in rows
    )
    assert json.loads(json.dumps(table, allow_nan=False))["samples"] == len(rows)
    assert sum(table["outcomes"].values()) == sum(table["categories"].values()) == len(rows)
    rates = [table[key] for key in ("correct_rate", "format_rate", "compile_rate")]
    rates += [*table["fast_p"].values(), *table["pass_at_k"].values()]
    assert all(rate is None or -1e-12 <= rate <= 1 + 1e-12 for rate in rates)
    passes = list(table["pass_at_k"].values())
    assert passes == sorted(passes)


def test_a_protocol_beside_has_a_table_of_its_own() -> None:
    """If every rollout has a verdict under that protocol."""
    strict, lax = rollout(Outcome.DECOY_KERNEL), rollout(Outcome.CORRECT, 2.0)
    both = strict.model_copy(update={"verdict": strict.verdict.model_copy(update={"beside": (lax.verdict,)})})
    table = summarise([both])
    assert table["correct"] == 0
    assert table["protocols"]["strict"]["correct"] == 1
    assert "protocols" not in summarise([both, lax])


def test_a_function_is_right_where_all_of_its_cases_are():
    cases = [
        Task(id=f"bench/T/{name}", suite="bench/T", source="-")
        for name in ("a/1", "a/2", "b/1", "c/1", "c/2", "d")
    ]
    right, wrong, unjudged = Outcome.CORRECT, Outcome.WRONG_VALUE, Outcome.UNSUPPORTED
    judged = {
        "a/1": [right, right],
        "a/2": [right, wrong],
        "b/1": [wrong, wrong],
        "c/1": [right, right],
        "c/2": [unjudged],
    }
    rollouts = [rollout(outcome, task=f"bench/T/{name}") for name, said in judged.items() for outcome in said]
    assert summarise(rollouts, cases)["functions"] == {
        "functions": 2,
        "cases": 3,
        "solved": 1,
        "pass_at_k": {"1": (1.0 * 0.5 + 0.0) / 2, "2": (1.0 + 0.0) / 2},
    }
    assert "functions" not in summarise(
        [rollout(right)], [Task(id="wright/relu", suite="wright", source="-")]
    )


def test_the_entropy_of_plans_is_what_was_surprising_in_them() -> None:
    said = rollout(Outcome.CORRECT).model_copy(
        update={
            "completion": Completion(text="x", token_ids=(1, 2, 3, 4), logprobs=(-1.0, -2.0, -0.5, -0.1)),
            "candidate": Candidate(
                plan="g1: softmax  nest row  warps 4", code="x", plan_span=(0, 2), code_span=(2, 4)
            ),
        }
    )
    assert plan_entropy([said, said]) == pytest.approx({"plan": 3.0, "decision": 1.5, "code_token": 0.3})
    assert plan_entropy([rollout(Outcome.CORRECT)]) is None


def test_right_samples_by_operator_of_graphs() -> None:
    graph = capture(torch.nn.GELU(), (torch.randn(2, 3),)).graph
    task = Task(id="random/1", suite="random", source="", graph=graph.model_dump_json())
    found = summarise(
        [rollout(Outcome.CORRECT, 2.0, "random/1"), rollout(Outcome.WRONG_VALUE, None, "random/1")], [task]
    )
    assert found["operators"] == {"gelu": (1, 2)}
