"""Which indices are as good as the reference's: ties where torch promises no order, and choices that rounding decides."""

from collections.abc import Callable

import pytest
import torch

from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.cases import make_case
from kernelwright.verify.reference.choices import Choices, Reordered, with_ties
from kernelwright.verify.reference.comparison import compare
from kernelwright.verify.reference.expected import Expected

STRICT = PROTOCOLS["strict"]


class Reference(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)


def expected(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> Expected:
    case = make_case("a case", Reference(function), [x], STRICT)
    assert case is not None
    return case.expected[0]


def accepted(places: list[int], function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor) -> bool:
    wanted = expected(function, x)
    return not compare(0, torch.tensor(places).reshape(wanted.shape), wanted, STRICT).kind


X = torch.tensor([[3.0, 1.0, 3.0, 2.0]])


def two_largest(x: torch.Tensor) -> torch.Tensor:
    return x.topk(2, dim=1).indices


def test_equal_elements_may_come_in_any_order_each_once() -> None:
    assert accepted([0, 2], two_largest, X)
    assert accepted([2, 0], two_largest, X)
    assert not accepted([2, 2], two_largest, X)
    assert not accepted([0, 3], two_largest, X)
    assert not accepted([0, 4], two_largest, X)
    assert not accepted([0, -2], two_largest, X)


def test_the_order_of_a_sort_is_free_among_equals_unless_it_is_stable() -> None:
    assert accepted([1, 3, 2, 0], lambda x: x.argsort(1), X)
    assert not accepted([1, 3, 2, 0], lambda x: torch.sort(x, dim=1, stable=True).indices, X)


def test_the_first_of_equal_elements_is_the_largest() -> None:
    for function in (lambda x: x.argmax(1), lambda x: x.max(1).indices):
        assert accepted([0], function, X)
        assert not accepted([2], function, X)
    assert not accepted([2], lambda x: torch.relu(x - 3).argmax(1), X)


def test_what_roundings_decide_is_free() -> None:
    x = torch.tensor([[1.0, 1.0 + 2**-9, 0.5]]).bfloat16().float() + torch.tensor([[0.0, 2**-9, 0.0]])

    def halves(x: torch.Tensor) -> torch.Tensor:
        return (x.bfloat16() * 1.0).argmax(1)

    assert int(halves(x)) == 0
    assert accepted([1], halves, x)
    assert not accepted([2], halves, x)


def test_of_everything_a_place_in_the_flat_order() -> None:
    assert accepted([0], lambda x: x.argmax(), X)
    assert not accepted([2], lambda x: x.argmax(), X)


def test_some_elements_keep_their_lines() -> None:
    whole = expected(two_largest, torch.cat([X, X.flip(1)]))
    some = whole.each(lambda tensor: tensor.reshape(-1)[2:])
    for places, right in (([1, 3], True), ([3, 1], True), ([0, 2], False)):
        assert (not compare(0, torch.tensor(places), some, STRICT).kind) is right


def of_the_best_half(x: torch.Tensor) -> torch.Tensor:
    """For [row, half, element], the half with the largest element."""
    halves = x.view(len(x), 2, -1)
    best = halves.amax(-1).topk(1, dim=1).indices
    return halves.take_along_dim(best[..., None], 1).flatten(1)


def test_what_is_made_of_places_is_free_among_equals_row_by_row() -> None:
    x = torch.tensor([[3.0, 1.0, 3.0, 2.0], [1.0, 5.0, 4.0, 4.0]])
    wanted = expected(of_the_best_half, x)
    for made, right in (
        ([[3.0, 1.0], [1.0, 5.0]], True),
        ([[3.0, 2.0], [1.0, 5.0]], True),
        ([[3.0, 1.5], [1.0, 5.0]], False),
        ([[3.0, 1.0], [4.0, 4.0]], False),
    ):
        assert (not compare(0, torch.tensor(made), wanted, STRICT).kind) is right


def test_a_place_that_is_cast_is_one() -> None:
    wanted = expected(lambda x: two_largest(x).to(torch.int32), X)
    for places, right in (([[0, 2]], True), ([[2, 0]], True), ([[2, 2]], False), ([[0, 3]], False)):
        assert (not compare(0, torch.tensor(places, dtype=torch.int32), wanted, STRICT).kind) is right


def test_the_last_of_equal_elements_first() -> None:
    x = torch.tensor([[1.0, 2.0, 2.0, 2.0]])
    for last, places in ((False, [1, 2]), (True, [3, 2])):
        with Reordered(last):
            assert x.topk(2, dim=1).indices.tolist() == [places]
            assert x.sort(dim=-1, descending=True).indices[0, :2].tolist() == places
            assert x.kthvalue(2, dim=1).indices.tolist() == [places[0]]
            assert x.kthvalue(2, dim=1, keepdim=True).values.tolist() == [[2.0]]
            assert torch.sort(x, dim=1, descending=True, stable=True).indices[0, :2].tolist() == [1, 2]


def of_three_equals(x: torch.Tensor) -> torch.Tensor:
    """For [row, block, element], the mean of three blocks of equal scores, times a number that halves do not hold."""
    scores = (x * 0.0).amax(-1)
    best = scores.topk(3, dim=1).indices
    return x.take_along_dim(best[..., None], 1).mean(1) * 0.7


def test_orders_that_differ_by_less_than_the_tolerance_are_orders_too() -> None:
    torch.manual_seed(3)
    x = (0.7 + 0.03 * torch.randn(64, 8, 16)).bfloat16()
    wanted = expected(of_three_equals, x)
    for last in (False, True):
        with Reordered(last):
            exact = of_three_equals(x.double())
        assert not compare(0, exact.bfloat16(), wanted, STRICT).kind
        assert compare(0, (exact + 0.01 * torch.randn_like(exact)).bfloat16(), wanted, STRICT).kind
    other = x.double()[:, 2:5].mean(1) * 0.7
    assert compare(0, other.bfloat16(), wanted, STRICT).kind


@pytest.mark.parametrize(
    "function", [torch.argsort, lambda x: x.sort(0).indices, lambda x: torch.log_softmax(x, 0)]
)
@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_of_nothing_there_is_nothing_to_choose(
    function: Callable[[torch.Tensor], torch.Tensor], shape: tuple[int, ...]
) -> None:
    wanted = expected(function, torch.zeros(shape))
    assert not compare(0, wanted.value.clone(), wanted, STRICT).kind


def test_every_other_line_has_two_ways_to_choose() -> None:
    x, choices = torch.randn(6, 8), Choices()
    with choices:
        x.view(-1, 4).abs().topk(2, -1)
    in_order = with_ties([x], choices.made)[0].view(-1, 4).abs().sort(-1, descending=True).values
    assert (in_order[::2, 1] == in_order[::2, 2]).all()
    assert (in_order[1::2, 1] > in_order[1::2, 2]).all()
    with choices:
        x.sort(-1)
    assert with_ties([x], choices.made[1:]) is None
