"""Identities over the reals that exact arithmetic proves, and inequalities that it detects."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernelwright.verify.exact import field
from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.values import Exact, same

GENERATOR = np.random.default_rng(1)
C = Calculator(key=987654321)


def data(*shape: int) -> Exact:
    return Exact(field.draw_residues(GENERATOR, field.LEVELS, shape))


X, Y = data(6, 20), data(6, 20)


def equal(one: Any, other: Any) -> bool:
    return bool(same(*C.aligned(one, other)).all())


def column(value: Exact) -> Exact:
    return value.reshape(*value.shape, 1)


def online(blocks: int) -> tuple[Exact, Exact]:
    """Maximum and sum of exponentials of the rows of X, block by block."""
    top, total = C.number(np.full(6, -math.inf)), C.number(np.zeros(6))
    for block in np.split(np.arange(20), blocks):
        part = X.taken(block, 1)
        new = C.maximum(top, C.maximum_over(part, 1))
        powers = C.exp(C.subtract(part, column(new)))
        total = C.add(C.multiply(total, C.exp(C.subtract(top, new))), C.sum(powers, 1))
        top = new
    return top, total


def relu_by_choice() -> Exact:
    return C.select(C.compare("less", X, 0.0), 0.0, X)


def stable_softplus() -> Exact:
    return C.add(C.maximum(X, 0.0), C.log1p(C.exp(C.negative(C.absolute(X)))))


SAME: dict[str, Callable[[], tuple[Any, Any]]] = {
    "the order of a sum": lambda: (C.sum(X, 1), C.sum(X.at(slice(None), slice(None, None, -1)), 1)),
    "a factor out of a sum": lambda: (C.sum(C.multiply(X, 3.5), 1), C.multiply(C.sum(X, 1), 3.5)),
    "an online maximum": lambda: (online(5)[0], C.maximum_over(X, 1)),
    "log-sum-exp in blocks": lambda: (C.add(online(5)[0], C.log(online(5)[1])), C.log(C.sum(C.exp(X).plain(), 1))),
    "two ways of a ReLU": lambda: (C.maximum(X, 0.0), relu_by_choice()),
    "two ways of a maximum": lambda: (C.select(C.compare("greater", X, Y), X, Y), C.maximum(Y, X)),
    "two ways of a sigmoid": lambda: (C.sigmoid(X), C.divide(C.exp(X), C.add(1.0, C.exp(X)))),
    "tanh by a sigmoid": lambda: (C.tanh(X), C.subtract(C.multiply(2.0, C.sigmoid(C.multiply(X, 2.0))), 1.0)),
    "a stable softplus": lambda: (C.log1p(C.exp(X)), stable_softplus()),
    "log of a sigmoid": lambda: (C.log(C.sigmoid(X)), C.negative(C.softplus(C.negative(X)))),
    "exp2 for exp": lambda: (C.exp2(C.multiply(X, 1.44269504)), C.exp(X)),
    "rsqrt for a root": lambda: (C.multiply(X, C.rsqrt(Y)), C.divide(X, C.sqrt(Y))),
    "a number out of a root": lambda: (C.sqrt(C.multiply(Y, 1 / 64)), C.multiply(C.sqrt(Y), 0.125)),
    "the mean of squares less the square of the mean": lambda: (
        C.subtract(C.sum(C.multiply(X, X), 1), C.multiply(C.multiply(C.sum(X, 1), C.sum(X, 1)), 1 / 20)),
        C.sum(C.multiply(C.subtract(X, column(C.multiply(C.sum(X, 1), 1 / 20))), X), 1),
    ),
}  # fmt: skip
OTHER: dict[str, Callable[[], tuple[Any, Any]]] = {
    "one term left out": lambda: (C.sum(X, 1), C.sum(X.taken(np.arange(19), 1), 1)),
    "one element left out of a maximum": lambda: (C.maximum_over(X, 1), C.maximum_over(X.taken(np.arange(19), 1), 1)),
    "a clamp far away": lambda: (X, C.minimum(X, 1000.0)),
    "a ReLU and the identity": lambda: (C.maximum(X, 0.0), X),
    "a maximum and a minimum": lambda: (C.maximum(X, Y), C.minimum(X, Y)),
    "softplus taken for x far down": lambda: (
        C.select(C.compare("less", X, -20.0), X, C.softplus(X)), C.softplus(X)
    ),
    "an epsilon": lambda: (C.divide(X, Y), C.divide(X, C.add(Y, 1e-12))),
}  # fmt: skip


@pytest.mark.parametrize("name", SAME)
def test_equal_over_the_reals(name: str) -> None:
    assert equal(*SAME[name]())


@pytest.mark.parametrize("name", OTHER)
def test_not_equal(name: str) -> None:
    one, other = C.aligned(*OTHER[name]())
    assert not same(one, other).any()


def test_softplus_is_its_argument_far_up() -> None:
    assert equal(C.select(C.compare("greater", X, 20.0), X, C.softplus(X)), C.softplus(X))


def test_padding_with_minus_infinity_counts_for_nothing() -> None:
    padded = C.select(np.arange(20) < 15, X, -math.inf)
    assert equal(C.maximum_over(padded, 1), C.maximum_over(X.taken(np.arange(15), 1), 1))
    assert equal(C.sum(C.exp(padded), 1), C.sum(C.exp(X.taken(np.arange(15), 1)), 1))


def test_decided_comparisons_make_a_way_within_a_way_known() -> None:
    decided = Calculator(key=5, decided=True)
    low = decided.subtract(decided.exp(decided.minimum(X, 0.0)).plain(), 1.0)
    one = decided.select(decided.compare("greater", X, 0.0), X, low)
    other = decided.select(
        decided.compare("greater", X, 0.0), X, decided.subtract(decided.exp(X).plain(), 1.0)
    )
    assert same(*decided.aligned(one, other)).all()
    assert decided.fewest_decisions() == X.size


def test_a_small_weight_is_known_in_its_multiples() -> None:
    calculator = Calculator(key=5)
    calculator.scalars = (0.4713982,)
    assert equal_in(calculator, 3 * 0.4713982, calculator.multiply(0.4713982, 3.0))
    assert equal_in(calculator, 1 / 0.4713982, calculator.reciprocal(0.4713982))


def test_a_copy_of_a_weight_is_that_weight() -> None:
    calculator = Calculator(key=5)
    values = np.array([0.25, -1.375, 2.0625])
    calculator.weights = np.sort(values)
    assert same(calculator.stored(values[::-1].copy()), calculator.weight(values[::-1].copy())).all()
    assert not same(calculator.stored(values), calculator.number(values)).any()


def test_numbers_far_below_stand_for_minus_infinity_but_cancel() -> None:
    low = C.number(np.full(20, -1e30))
    assert equal(C.maximum(X, low), X)
    assert equal(C.exp(C.subtract(low, low)), 1.0)


def equal_in(calculator: Calculator, one: Any, other: Any) -> bool:
    return bool(same(*calculator.aligned(one, other)).all())


def test_long_tables_are_what_single_precision_has() -> None:
    table = (GENERATOR.standard_normal(1000) * 1e3).astype(np.float32).astype(np.float64)
    table[:3] = 0.0, math.inf, -math.inf
    made = C.number(table)
    assert equal(made.at(slice(0, 3)), C.number(table[:3]))
    whole = C.number(np.array([2.0**-9 * 12345]))
    table[10] = 2.0**-9 * 12345
    assert equal(C.number(table).at(slice(10, 11)), whole)
