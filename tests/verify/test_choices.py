"""Which places are as good as the reference's: ties where torch promises no order, and what roundings decide."""

from collections.abc import Callable

import torch

from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.cases import make_case
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
