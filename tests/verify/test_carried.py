"""Inputs on which what is carried from step to step goes far."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelwright.verify.reference.carried import carried
from kernelwright.verify.reference.operators import operators


def found(call: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Any:
    class Model(torch.nn.Module):
        def forward(self, *given: torch.Tensor) -> torch.Tensor:
            return call(*given)

    return carried(list(inputs), lambda given: [call(*given)], operators(Model(), inputs), 5)


def differences(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    borrow, digits = torch.zeros_like(a[:, 0]), []
    for k in range(a.shape[1]):
        digit = a[:, k] - b[:, k] - borrow
        borrow = (digit < 0).to(a.dtype)
        digits.append(digit + borrow * 1000)
    return torch.stack(digits, 1)


def test_a_borrow_runs_through_all_digits() -> None:
    draw = torch.Generator().manual_seed(3)
    a, b = found(differences, *(torch.randint(1000, (6, 24), generator=draw) for _ in range(2)))
    assert (a[:, 2:] == b[:, 2:]).all()
    assert (a[:, 0] != b[:, 0]).all()


def test_what_follows_a_peak_is_quiet() -> None:
    def peaks(x: torch.Tensor) -> torch.Tensor:
        level, levels = torch.zeros_like(x[:, 0]), []
        for k in range(x.shape[1]):
            level = torch.maximum(x[:, k], level * 0.9)
            levels.append(level)
        return torch.stack(levels, 1)

    (x,) = found(peaks, torch.rand(6, 200, generator=torch.Generator().manual_seed(3)) + 0.1)
    assert (x[:, 0] > 10 * x[:, 1:50].amax(1)).all()


def test_what_carries_nothing_or_has_no_steps_is_left_alone() -> None:
    x = torch.rand(6, 20)
    assert found(lambda x: torch.stack([one * 2 for one in x.unbind(1)], 1), x) is None
    assert found(lambda x: x.cumsum(1), x) is None
