"""Rows with shapes of their own."""

from __future__ import annotations

import torch

from kernelwright.verify.reference.row_shapes import shaped, spread


def _taken(inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [one.double() for one in inputs]


def _periods(row: torch.Tensor) -> set[int]:
    return {period for period in range(2, 10) if torch.equal(row[period:], row[:-period])}


def test_integers_keep_their_range_and_some_rows_repeat() -> None:
    ids = torch.randint(3, 1000, (96, 48))
    (made,) = shaped([ids], _taken, [], True, 1)
    assert int(made.min()) >= 3
    assert int(made.max()) < 1000
    assert set.union(*map(_periods, made)) == set(range(2, 10))
    assert torch.equal(made[0::4], ids[0::4])


def test_numbers_that_the_reference_names_stand_in_runs() -> None:
    (made,) = shaped([torch.randint(0, 127, (64, 48), dtype=torch.uint8)], _taken, [92, 500], True, 1)
    longest = max(int(made[row].eq(92).float().unfold(0, 9, 1).mean(1).max()) for row in range(64))
    assert longest == 1


def test_floats_swing_within_their_signs() -> None:
    (made,) = shaped([torch.rand(64, 32) + 0.5], _taken, [], True, 1)
    assert float(made.min()) > 0
    turns = (made - 1.0)[:, 1:] * (made - 1.0)[:, :-1]
    assert bool((turns.mean(1) < -0.05).any())


def test_equal_halves_stay_equal() -> None:
    half = torch.rand(32, 12) + 0.5
    (made,) = shaped([torch.cat((half, half), 1)], _taken, [], True, 1)
    assert torch.equal(made[:, :12], made[:, 12:])
    assert not torch.equal(made[:, :12], half)


def test_sums_of_floats_that_recur_are_exact_in_any_order() -> None:
    (made,) = shaped([torch.rand(96, 4000) + 0.5], _taken, [], True, 1)
    recurring = [row for row in made if len(row.unique()) < 2000]
    assert recurring
    for row in recurring:
        assert torch.equal(row.cumsum(0).double(), row.double().cumsum(0))
    assert float(made.min()) >= 0.5


def test_floats_stay_where_ties_decide() -> None:
    x = torch.randn(8, 16)
    assert shaped([x], _taken, [], False, 1) is None


def test_the_second_of_two_lacks_what_a_named_number_needs_or_has_the_same_sums() -> None:
    first, second = torch.randint(0, 1000, (64, 16)), torch.randint(0, 1000, (64, 16))
    one, other = shaped([first, second], _taken, [1000], True, 1)
    assert bool((one + other == 1000).all(1).any())
    sums = (one.sum(1) == other.sum(1)) & ((one * one).sum(1) == (other * other).sum(1))
    differ = (one.sort(1).values != other.sort(1).values).any(1)
    assert bool((sums & differ).any())


def test_bounds_are_met_exactly_by_sums() -> None:
    used, more, room = (torch.randint(0, 1000, (512,)) for _ in range(3))
    used, more, room = shaped([used, more, room], _taken, [], True, 1)
    assert 0.1 < float((used + more == room).float().mean()) < 0.6


def test_integers_are_spread_out_only_where_order_counts() -> None:
    ids = torch.randint(0, 32, (8, 16))
    order = spread([ids], lambda inputs: [inputs[0].unique(return_inverse=True)[1]], ())
    assert torch.equal(order[0], ids << 16)
    assert spread([ids], lambda inputs: [inputs[0].float().mean(1)], ()) is None
    assert spread([ids], lambda inputs: [torch.bincount(inputs[0].flatten())], ["bincount"]) is None


def test_sorted_integers_and_masks_stay_as_drawn() -> None:
    rows, mask = torch.randint(0, 50, (8, 16)).sort(1).values, torch.randint(0, 2, (8, 16))
    assert shaped([rows, mask], _taken, [], False, 1) is None
