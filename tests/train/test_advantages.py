"""Credit: group advantages compared with TRL's arithmetic and by hand, rewards of None, plan and code separately."""

import itertools
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.train.advantages import (
    agreeing,
    best_of_plan,
    group_advantages,
    lift_entropy,
    marginal,
    modal,
    spread,
    within_plans,
)

NAN = math.nan
finite = st.floats(-10, 10, allow_nan=False, width=32)


def groups(size: int = 4) -> st.SearchStrategy[list[float]]:
    return st.lists(st.lists(finite, min_size=size, max_size=size), min_size=1, max_size=4).map(
        lambda rows: [value for row in rows for value in row]
    )


def test_by_hand() -> None:
    rewards = torch.tensor([1.0, 3.0, 0.0, 0.0])
    torch.testing.assert_close(
        group_advantages(rewards, 2, scale="none"), torch.tensor([-1.0, 1.0, 0.0, 0.0])
    )
    torch.testing.assert_close(
        group_advantages(rewards, 2, scale="std"),
        torch.tensor([-1.0, 1.0, 0.0, 0.0]) / (math.sqrt(2) + 1e-4),
    )
    torch.testing.assert_close(
        group_advantages(rewards, 2, scale="none", baseline="leave_one_out"),
        torch.tensor([-2.0, 2.0, 0.0, 0.0]),
    )


@given(groups())
def test_without_gaps_it_is_trls_arithmetic(rewards: list[float]) -> None:
    values = torch.tensor(rewards)
    rows = values.view(-1, 4)
    base = rows.mean(1).repeat_interleave(4)
    std = rows.std(1).repeat_interleave(4)
    options = {"rtol": 1e-3, "atol": 1e-4}
    torch.testing.assert_close(group_advantages(values, 4, scale="none"), values - base, **options)
    torch.testing.assert_close(
        group_advantages(values, 4, scale="std"), (values - base) / (std + 1e-4), **options
    )
    torch.testing.assert_close(
        group_advantages(values, 4, scale="batch"), (values - base) / (values.std() + 1e-4), **options
    )


@given(groups(), st.sampled_from(["std", "none", "batch"]), st.sampled_from(["mean", "leave_one_out"]))
def test_a_group_sums_to_nothing_and_keeps_its_order(rewards: list[float], scale: str, baseline: str) -> None:
    advantages = group_advantages(torch.tensor(rewards), 4, scale=scale, baseline=baseline)  # type: ignore[arg-type]
    torch.testing.assert_close(
        advantages.view(-1, 4).sum(1), torch.zeros(len(rewards) // 4), atol=2e-2, rtol=0
    )
    for row, values in zip(advantages.view(-1, 4), torch.tensor(rewards).view(-1, 4), strict=True):
        assert (row[values.argmax()] >= row - 1e-5).all()


@given(groups())
def test_negatives_can_weigh_less(rewards: list[float]) -> None:
    values = torch.tensor(rewards)
    full, half = group_advantages(values, 4), group_advantages(values, 4, negatives=0.5)
    torch.testing.assert_close(half, full.clamp(min=0) + 0.5 * full.clamp(max=0))


def test_of_right_samples_the_likely_tokens_count_and_of_wrong_ones_the_unlikely() -> None:
    advantages = torch.tensor([[2.0, 2.0, 2.0], [-1.0, -1.0, -1.0], [0.0, 0.0, 0.0]])
    odds = torch.tensor([[0.9, 0.5, 0.4], [0.9, 0.5, 0.4], [0.9, 0.5, 0.4]])
    expected = torch.tensor([[2.0, 2.0, 0.0], [0.0, 0.0, -1.0], [0.0, 0.0, 0.0]])
    torch.testing.assert_close(modal(advantages, odds.log()), expected)


@given(groups(), st.data())
def test_a_reward_of_none_leaves_the_others_as_a_smaller_group(
    rewards: list[float], data: st.DataObject
) -> None:
    missing = data.draw(st.integers(0, 3))
    values = torch.tensor(rewards[:4])
    values[missing] = NAN
    known = [i for i in range(4) if i != missing]
    advantages = group_advantages(values, 4, scale="std")
    assert advantages[missing] == 0
    torch.testing.assert_close(advantages[known], group_advantages(values[known], 3, scale="std"))


@pytest.mark.parametrize("scale", ["std", "none", "batch"])
def test_a_group_of_one_or_none_compares_nothing(scale: str) -> None:
    rewards = torch.tensor([NAN, 5.0, NAN, NAN, NAN, NAN, 1.0, 1.0])
    assert group_advantages(rewards, 4, scale=scale).tolist() == [0.0] * 8  # type: ignore[arg-type]
    assert agreeing(rewards, 4).tolist() == [True, True]


def test_all_missing_is_no_advantage() -> None:
    assert group_advantages(torch.full((4,), NAN), 2, scale="batch").tolist() == [0.0] * 4


def test_agreeing_groups_are_found() -> None:
    assert agreeing(torch.tensor([1.0, 1.0, 1.0, 2.0, NAN, 3.0, NAN, NAN]), 2).tolist() == [
        True,
        False,
        True,
        True,
    ]


def test_plan_tokens_are_paid_for_the_plan_and_code_tokens_for_the_code() -> None:
    plan, code = torch.tensor([[1.0], [2.0]]), torch.tensor([[-1.0], [-2.0]])
    tokens = spread(plan, code, torch.tensor([[1, 1, 2, 2], [2, 2, 2, 2]]), alpha=0.1)
    torch.testing.assert_close(tokens, torch.tensor([[0.1, 0.1, -1.0, -1.0], [-2.0] * 4]))


@pytest.mark.parametrize(("thoughts", "paid"), [("plan", 0.2), ("code", -1.0), ("both", -0.8), ("none", 0.0)])
def test_thoughts_are_paid_as_the_recipe_says(thoughts: Any, paid: float) -> None:
    made = spread(
        torch.tensor([[2.0]]),
        torch.tensor([[-1.0]]),
        torch.tensor([[0, 1, 2]]),
        alpha=0.1,
        thoughts=thoughts,
    )
    torch.testing.assert_close(made, torch.tensor([[paid, 0.2, -1.0]]))


@given(st.lists(finite, min_size=1, max_size=5), st.data())
def test_equal_rewards_are_scalar_grpo(advantages: list[float], data: st.DataObject) -> None:
    scalar = torch.tensor(advantages)[:, None]
    rows = st.lists(st.integers(0, 2), min_size=7, max_size=7)
    labels = data.draw(st.lists(rows, min_size=len(scalar), max_size=len(scalar)))
    torch.testing.assert_close(spread(scalar, scalar, torch.tensor(labels)), scalar.expand(-1, 7))


# -- plans


def test_a_plan_is_paid_the_best_of_the_samples_that_say_it() -> None:
    paid = best_of_plan(torch.tensor([-1.0, 0.5, NAN, 0.2, -1.0, 0.9]), torch.tensor([7, 7, 7, 8, 9, 8]), 3)
    torch.testing.assert_close(paid, torch.tensor([0.5, 0.5, NAN, 0.9, -1.0, 0.9]), equal_nan=True)


def test_code_is_compared_with_code_of_the_same_plan_where_that_differs() -> None:
    rewards, plans = torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([1, 1, 2, 2])
    within = within_plans(rewards, plans, 4, scale="none")
    torch.testing.assert_close(within, torch.tensor([0.5, -0.5, -0.25, -0.25]))


def brute_marginal(values: list[float], k: int) -> list[float]:
    """Brute force over all sets."""
    found = []
    for i in range(len(values)):
        others = [v for j, v in enumerate(values) if j != i]
        sets = list(itertools.combinations(others, k - 1))
        found.append(sum(max(0.0, values[i] - max(some)) for some in sets) / len(sets))
    return found


@given(st.lists(finite, min_size=4, max_size=4), st.integers(2, 4))
def test_what_a_sample_adds_to_the_best_of_k(values: list[float], k: int) -> None:
    got = marginal(torch.tensor(values), 4, k)
    torch.testing.assert_close(got, torch.tensor(brute_marginal(values, k)), rtol=1e-4, atol=1e-4)


def test_the_leave_one_out_maximum_pays_the_best_alone() -> None:
    got = marginal(torch.tensor([0.0, 3.0, 1.0, NAN]), 4, 4)
    torch.testing.assert_close(got, torch.tensor([0.0, 2.0, 0.0, NAN]), equal_nan=True)


def test_entropy_is_lifted_below_its_floor_and_on_plan_tokens_only() -> None:
    logprobs, chosen = torch.tensor([[-0.1, -2.1, -5.0]]), torch.tensor([[True, True, False]])
    flat = torch.zeros(1, 3)
    lifted = lift_entropy(flat, logprobs, chosen, 0.5, 1.0, 0.2)
    torch.testing.assert_close(lifted, torch.tensor([[-0.1, 0.1, 0.0]]))
    assert lift_entropy(flat, logprobs, chosen, 1.0, 1.0, 0.2) is flat
