"""Credit by hand: returns of turns, the dead band, each token's reward, and which turns are in the loss."""

import math
from typing import Any

import pytest
import torch
from fakes import SaidPolicy, answer, task
from tiny import make_recipe

from kernelwright import rewards
from kernelwright.outcomes import Gate, Outcome
from kernelwright.prompts import render
from kernelwright.records import Candidate, Completion, Reward, Rollout, Timing, Verdict
from kernelwright.train.advantages import spread, turn_advantages
from kernelwright.train.credit import (
    CODE,
    PLAN,
    REPLY,
    Conversation,
    agree,
    repaid,
    returns,
    round_speedup,
    row,
)
from kernelwright.train.segment_advantages import segment_advantages, trained_turns

NAN = math.nan
T = torch.tensor


def rollout(
    plan: float | None = 0.0, code: float | None = 0.0, ids: tuple[int, ...] = (7, 8), cut: int = 0
) -> Rollout:
    """An answer with tokens `ids`, whose code starts at `cut`, with a reward."""
    one = task("a")
    return Rollout(
        task_id=one.id,
        stage="frontend",
        prompt=render("frontend", one, style="compact"),
        completion=Completion(text="x", token_ids=ids, logprobs=(-0.5,) * len(ids)),
        candidate=Candidate(code="c", plan_span=(0, cut) if cut else None, code_span=(cut, len(ids))),
        verdict=Verdict(task_id=one.id, outcome=Outcome.WRONG_VALUE, gate=Gate.SMALL),
        reward=Reward(preset="kevin", plan=plan, code=code),
    )


def talk(*turns: Rollout) -> Conversation:
    return Conversation((1, 2), turns, ((50, 51),) * (len(turns) - 1))


def timed(speedup: float) -> Verdict:
    timing = Timing(
        kind="measured",
        target="h200",
        candidate_ms=2.0,
        candidate_ci=(2.0, 2.0),
        baseline_ms={"eager": 2.0 * speedup},
        speedup_ci={"eager": (speedup, speedup)},
    )
    return Verdict(task_id="a", outcome=Outcome.CORRECT, gate=Gate.TIMING, timing=timing)


def test_a_turn_is_paid_for_what_it_made_possible() -> None:
    """Kevin: 0, then 0.3 + 1, then 0.3 + 3, gamma 0.4: 0.4 * (1.3 + 0.4 * 3.3), 1.3 + 0.4 * 3.3, 3.3."""
    paid = returns(talk(rollout(0.0), rollout(1.3), rollout(3.3)), 4, 0.4)
    assert [plan for plan, _ in paid[:3]] == pytest.approx([0.4 * (1.3 + 0.4 * 3.3), 1.3 + 0.4 * 3.3, 3.3])
    assert all(math.isnan(value) for value in paid[3])


def test_a_turn_without_a_reward_adds_nothing_and_has_none() -> None:
    first, second, third = returns(talk(rollout(1.0), rollout(None, None), rollout(2.0)), 3, 0.5)
    assert (first[0], third[0]) == (pytest.approx(1.0 + 0.5 * 0.5 * 2.0), 2.0)
    assert math.isnan(second[0])


def test_a_row_joins_answers_by_replies_that_carry_no_loss() -> None:
    made = row(talk(rollout(ids=(7, 8, 9), cut=2), rollout(ids=(5, 6), cut=1)), end=3)
    assert made.prompt == [1, 2]
    assert made.tokens == [7, 8, 9, 50, 51, 5, 6]
    assert made.labels == [PLAN, PLAN, CODE, REPLY, REPLY, 3 + PLAN, 3 + CODE]
    assert made.own == [1, 1, 1, 0, 0, 1, 1]
    assert made.logprobs == [-0.5, -0.5, -0.5, 0.0, 0.0, -0.5, -0.5]
    assert row(talk(rollout(ids=())), end=3).tokens == [3]


def test_each_token_gets_the_advantage_of_its_turn_and_segment() -> None:
    labels = T([[PLAN, CODE, REPLY, 3 + PLAN, 3 + CODE], [CODE] * 5])
    made = spread(T([[1.0, 2.0], [3.0, 4.0]]), T([[10.0, 20.0], [30.0, 40.0]]), labels, alpha=0.5)
    assert made.tolist() == [[0.5, 10.0, 0.0, 1.0, 20.0], [30.0] * 5]


def test_turns_are_compared_within_a_turn_or_across_a_prompt() -> None:
    """Two samples, two turns; the second sample ended after its first."""
    paid = T([[1.0, 4.0], [3.0, NAN]])
    within = turn_advantages(paid, 2, scale="none")
    assert within.tolist() == [[-1.0, 0.0], [1.0, 0.0]]
    mean = (1 + 4 + 3) / 3
    across = turn_advantages(paid, 2, across=True, scale="none")
    torch.testing.assert_close(across, T([[1 - mean, 4 - mean], [3 - mean, 0.0]]))


@pytest.mark.parametrize(
    ("speedup", "expected"),
    [(1.04, 1.0), (0.96, 1.0), (1.051, 1.05), (1.12, 1.05**2), (0.90, 1 / 1.05**2), (1.05, 1.05)],
)
def test_the_dead_band_takes_noise_for_parity(speedup: float, expected: float) -> None:
    assert round_speedup(timed(speedup), 0.05).speedup() == pytest.approx(expected)
    assert round_speedup(timed(speedup), 0.0).speedup() == pytest.approx(speedup)


def test_the_dead_band_is_in_the_reward_and_not_in_the_log() -> None:
    said = rollout().model_copy(
        update={"verdict": timed(1.04), "reward": rewards.reward("toronto-midend", timed(1.04))}
    )
    paid = repaid(said, 0.05)
    assert (said.reward.total, paid.reward.total) == (pytest.approx(2.04), pytest.approx(2.0))  # type: ignore[union-attr]
    assert paid.verdict == said.verdict
    assert repaid(said, 0.0) is said


def test_noise_within_the_band_is_no_advantage() -> None:
    """[1, 1.001, 1, 1] under std-scaling would give +1.5 for noise; within the band the group is equal."""
    group = [
        talk(
            repaid(
                rollout().model_copy(
                    update={"verdict": timed(s), "reward": rewards.reward("toronto-midend", timed(s))}
                ),
                0.05,
            )
        )
        for s in (1.0, 1.001, 1.0, 1.0)
    ]
    paid = T([returns(each, 1, 0.4) for each in group])
    assert turn_advantages(paid.sum(2), 4, scale="std").abs().max() == 0
    assert agree(group, 1, 0.4)


def test_groups_agree_when_every_turn_is_paid_alike() -> None:
    same = [talk(rollout(1.0), rollout(2.0))] * 2
    assert agree(same, 2, 0.4)
    assert not agree([same[0], talk(rollout(1.0), rollout(3.0))], 2, 0.4)
    assert agree([same[0], talk(rollout(None, None))], 2, 0.4), "one of them was not judged"
    assert not agree([talk(rollout(1.0, 0.0)), talk(rollout(0.0, 1.0))], 1, 0.4), "the segments differ"


def settings(**frontend: Any) -> Any:
    from pathlib import Path

    return make_recipe(Path("."), frontend={"samples": 2, "scale": "none", **frontend}).frontend


def test_hierarchical_and_uniform_by_hand() -> None:
    """Two samples: plan rewards 1 and 0, code rewards 0 and 3. Hierarchical: +-0.5, -+1.5. Uniform: the sums, 1 and 3."""
    paid = T([[[1.0, 0.0]], [[0.0, 3.0]]])
    plan, code = segment_advantages(paid, settings(credit="hierarchical"))
    assert (plan[:, 0].tolist(), code[:, 0].tolist()) == ([0.5, -0.5], [-1.5, 1.5])
    plan, code = segment_advantages(paid, settings(credit="uniform"))
    assert plan[:, 0].tolist() == code[:, 0].tolist() == [-1.0, 1.0]
    plan, code = segment_advantages(paid, settings(credit="uniform", baseline="leave_one_out"))
    assert code[:, 0].tolist() == [-2.0, 2.0]


def test_groups_that_agree_can_be_left_out_of_the_loss() -> None:
    paid = T([[[1.0, 1.0]], [[1.0, 1.0]], [[1.0, 1.0]], [[1.0, 2.0]], [[NAN, NAN]], [[1.0, 1.0]]])
    kept = trained_turns(paid, settings(agreeing="keep"))
    assert kept[:, 0].tolist() == [True, True, True, True, False, True]
    assert trained_turns(paid, settings(agreeing="drop"))[:, 0].tolist() == [
        False,
        False,
        True,
        True,
        False,
        False,
    ]


def test_a_policy_that_says_one_thing_agrees() -> None:
    from fakes import ReadJudge

    from kernelwright.rollouts import roll

    one = task("a")
    [group] = roll(
        SaidPolicy(lambda *_: answer("correct 1")), [render("frontend", one)], [one], ReadJudge(), n=3
    )
    assert agree([talk(each) for each in group], 1, 0.4)


def test_samples_of_one_plan_share_its_pay_and_compare_their_code() -> None:
    paid = torch.tensor([[[0.8, 1.0]], [[-1.0, 0.0]], [[0.2, 1.0]], [[0.2, 1.0]]])
    plans = torch.tensor([[1], [1], [2], [3]])
    rl = settings(credit="hierarchical", samples=4, grouping="plans")
    plan, code = segment_advantages(paid, rl, plans)
    torch.testing.assert_close(plan[:, 0], torch.tensor([0.3, 0.3, -0.3, -0.3]))
    torch.testing.assert_close(code[:, 0], torch.tensor([0.5, -0.5, 0.25, 0.25]))


def test_the_best_of_all_samples_pays_the_fastest_plan_alone() -> None:
    paid = torch.tensor([[[0.8, 1.0]], [[0.1, 1.0]], [[0.2, 1.0]], [[0.2, 1.0]]])
    plan, _ = segment_advantages(paid, settings(credit="hierarchical", samples=4, best_of=4))
    torch.testing.assert_close(plan[:, 0], torch.tensor([0.45, -0.15, -0.15, -0.15]))
