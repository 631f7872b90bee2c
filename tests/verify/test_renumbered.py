"""Calls with other Python numbers before the judged ones."""

from types import SimpleNamespace

import pytest
import torch

from kernelwright.verify.reference.renumbered import in_another_type, with_other_numbers


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


class Casts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Learns(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("dtype", "other"), [(torch.float32, "bfloat16"), (torch.float16, "float32"), (torch.int64, "")]
)
def test_inputs_of_another_type_come_before_where_the_reference_takes_them(
    dtype: torch.dtype, other: str
) -> None:
    case = SimpleNamespace(inputs=[torch.zeros(3, dtype=dtype)], module=Casts(), expected=[torch.empty(3)])
    made = [one["list"][0]["meta"]["dtype"] for one in in_another_type(case)]  # type: ignore[arg-type, index]
    assert made == ([other] if other else [])


def test_a_module_with_weights_of_its_own_type_is_called_in_no_other() -> None:
    case = SimpleNamespace(inputs=[torch.zeros(2, 3)], module=Learns(), expected=[torch.empty(2, 3)])
    assert not list(in_another_type(case))  # type: ignore[arg-type]
