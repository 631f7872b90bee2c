"""References that write to one element twice are not judged where the order matters."""

from collections.abc import Callable

import pytest
import torch

from kernelwright.graph.disorder import Disorder
from kernelwright.verify.reference.periodic import _draw

X = torch.arange(12.0).reshape(4, 3)
Write = Callable[[torch.Tensor], torch.Tensor]


def assigned(at: torch.Tensor) -> torch.Tensor:
    out = torch.zeros_like(X)
    out[at] = X
    return out


WRITES: list[Write] = [
    assigned,
    lambda at: torch.zeros_like(X).index_copy(0, at, X),
    lambda at: torch.zeros_like(X).scatter(0, at[:, None].expand(4, 3), X),
    lambda at: torch.zeros(4).put(at, X[:, 0]),
]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(("places", "found"), [((2, 0, -1, 1), False), ((2, 0, 2, 1), True)])
def test_different_values_at_one_place_are_found(write: Write, places: tuple[int, ...], found: bool) -> None:
    at = torch.tensor(places)
    if write is not WRITES[0]:
        at = at % 4
    with Disorder() as disorder:
        write(at)
    assert disorder.found is found


def test_sums_and_equal_values_have_no_order() -> None:
    at = torch.tensor([1, 1, 2, 2])
    with Disorder() as disorder:
        torch.zeros_like(X).index_put((at,), X, accumulate=True)
        torch.zeros_like(X).index_add(0, at, X)
        torch.zeros_like(X).index_copy(0, at, torch.ones_like(X))
    assert not disorder.found


def test_fewer_integers_of_a_permutation_are_distinct() -> None:
    drawn = _draw(torch.rand(50, 100).argsort(1), [7, 30])
    assert all(len(row.unique()) == 30 for row in drawn)
