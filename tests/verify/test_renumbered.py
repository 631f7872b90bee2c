"""Calls with other numbers of Python's before those that are judged."""

from types import SimpleNamespace

import pytest
import torch

from kernelwright.verify.reference.renumbered import with_other_numbers


class Scaled(torch.nn.Module):
    def forward(self, x: torch.Tensor, number: float) -> torch.Tensor:
        assert number <= 5
        return x * number


@pytest.mark.parametrize(
    ("number", "others"),
    [
        (0.5, [1.0, 0.5 * (1 + 2.0**-8), 0.495]),
        (0.0, [1.0]),
        (True, [False]),
        (3, [4]),
        (5, [4]),
    ],
)
def test_numbers_change_by_much_and_floats_by_little(number: float, others: list[float]) -> None:
    case = SimpleNamespace(inputs=[torch.randn(3), number], module=Scaled(), expected=[torch.empty(3)])
    made = [one["list"][1]["value"] for one in with_other_numbers(case)]  # type: ignore[arg-type, index]
    assert made == pytest.approx(others)
