"""Inputs on which an iteration settles late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelwright.verify.reference.operators import operators
from kernelwright.verify.reference.settling import KIND, STEPS, settling
from kernelwright.verify.structures import convert


def found(
    call: Callable[..., torch.Tensor], draw: Callable[[], list[torch.Tensor]], long: bool = False
) -> Any:
    class Model(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            return call(*given)

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        inputs, again = draw(), draw()
    double = lambda given: [call(*convert(given, torch.Tensor.double))]  # noqa: E731
    single = lambda given: [call(*given)]  # noqa: E731
    return settling(inputs, again, double, single, operators(Model(), inputs), 5, long)


def roots(a: torch.Tensor) -> torch.Tensor:
    x = a
    for _ in range(12):
        x = (x + a / x) / 2
    return x


def levels(z: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    p, made = torch.ones_like(q), []
    for one in z:
        p = p * (1 - q)
        made.append(one * p)
    return torch.stack(made)


def test_newtons_steps_for_roots_of_small_numbers() -> None:
    kind, (a,) = found(roots, lambda: [torch.rand(40) + 0.5])
    assert kind == KIND
    x, rounds = a.double(), 0
    while float((x / a.double().sqrt() - 1).abs().max()) > 1e-3:
        x, rounds = (x + a / x) / 2, rounds + 1
    assert rounds > 5
    assert float(a.min()) > 0


def test_each_instance_of_several_inputs() -> None:
    draw = lambda: [torch.randn(50, 6), torch.rand(6) * 0.3 + 0.6]  # noqa: E731
    kind, (_, q) = found(levels, draw, long=True)
    assert kind == STEPS
    assert float(q.max()) < 0.5


def test_what_has_no_rounds_or_never_settles_is_left_alone() -> None:
    assert found(lambda a: a.exp() + a, lambda: [torch.rand(40)]) is None
    assert found(roots, lambda: [torch.rand(40) + 0.5], long=True) is None

    def grown(a: torch.Tensor) -> torch.Tensor:
        total = a
        for _ in range(12):
            total = total * 1.5 + a
        return total

    assert found(grown, lambda: [torch.rand(40)]) is None
