"""Chains: inputs on which a reference that works in rounds needs many of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelwright.verify.reference.chains import chains
from kernelwright.verify.reference.operators import Operators


def made(call: Callable[..., Any], draw: Callable[[], list[torch.Tensor]], operators: list[str]) -> list[Any]:
    inputs, again = draw(), draw()
    return list(chains(inputs, again, lambda given: [call(*given)], Operators(operators), 5))


def test_each_place_names_the_one_before() -> None:
    parents = lambda: [(torch.rand(400) * torch.arange(400)).long()]  # noqa: E731
    ((found,),) = made(lambda parent: parent[parent], parents, ["index"] * 4)
    assert found.tolist() == [0, *range(399)]
    assert not made(lambda parent: parent[parent], parents, ["index"])


def test_distinct_places_go_round() -> None:
    ((found,),) = made(lambda one: one[one], lambda: [torch.randperm(400)], ["index"] * 4)
    assert sorted(found.tolist()) == list(range(400))
    assert ((found - torch.arange(400)) % 400).unique().numel() == 1


def test_two_lists_make_a_path_between_ends_that_are_zero() -> None:
    def call(far: torch.Tensor, src: torch.Tensor, dst: torch.Tensor) -> torch.Tensor:
        return far.scatter_reduce(0, dst, far[src], "amin")

    def draw() -> list[torch.Tensor]:
        return [torch.rand(40), torch.randint(40, (90,)), torch.randint(40, (90,))]

    ((far, src, dst),) = made(call, draw, ["scatter_reduce"] * 4)
    assert (dst == src + 1).all()
    assert src.unique().numel() > 30
    assert far[0] == 0
    assert far[1] > 1e3


def test_one_place_of_a_mask_and_all_of_the_other() -> None:
    draw = lambda: [torch.rand(2, 1, 9, 9) < 0.5, torch.rand(2, 1, 9, 9) < 0.5]  # noqa: E731
    found = made(torch.logical_and, draw, ["max_pool2d_with_indices"] * 4)
    assert [[int(one.sum()) for one in masks] for masks in found] == [[2, 162], [162, 2]]


def test_a_square_matrix_has_two_groups_within_what_is_drawn() -> None:
    ((found,),) = made(torch.sum, lambda: [torch.rand(2, 8, 8) + 0.1], ["bmm"] * 4)
    assert found.unique().numel() == 2
    assert found.min() >= 0.1
    assert not made(torch.sum, lambda: [torch.rand(2, 8, 8)], ["bmm"])


def test_divided_integers_are_neighbours_among_fibonaccis_numbers() -> None:
    ((one, other),) = made(torch.gcd, lambda: [torch.randint(1, 99, (64,)) for _ in range(2)], ["gcd"])
    assert (one > other).all()
    assert (one < 2 * other).all()
    assert int(one.max()) > 1 << 39


def test_a_carry_runs_through_all_digits_of_every_other_row() -> None:
    draw = lambda: [torch.randint(0, 65536, (6, 32)) for _ in range(2)]  # noqa: E731
    ((one, other),) = made(torch.add, draw, ["__rshift__"] * 4)
    assert (one[::2] == 65535).all()
    assert other[::2].sum(1).tolist() == [1, 1, 1]
    assert one[1].unique().numel() > 8


def test_the_largest_digit_is_below_what_is_divided_by() -> None:
    operators = Operators(["remainder"] * 4)
    operators.landmarks = (1000.0,)
    inputs, again = ([torch.randint(0, 990, (6, 32)) for _ in range(2)] for _ in range(2))
    ((one, _),) = chains(inputs, again, lambda given: [torch.add(*given)], operators, 5)
    assert (one[::2] == 999).all()


def test_shortest_paths_lead_from_neighbour_to_neighbour() -> None:
    ((found,),) = made(torch.sum, lambda: [torch.rand(2, 9, 9)], ["amin"] * 4)
    near = found == found.min()
    assert near.diagonal(1, 1, 2).all()
    assert int(near.sum()) == 2 * 2 * 8


def test_matrices_that_are_normalised_in_turn_have_two_groups_with_weak_links() -> None:
    ((found,),) = made(torch.sum, lambda: [torch.rand(2, 4, 6) + 0.2], ["sum", "div"] * 4)
    assert (found[:, 1, :3].amin(1) > 10 * found[:, 1, 3:].amax(1)).all()
    assert (found[:, 0] >= 0.2).all()
