"""The sign of half precision's errors."""

from __future__ import annotations

import pytest
import torch

from kernelwright.verify.reference.leaning import Leanings, leaning

HALVES = (torch.bfloat16, torch.float16)


def drawn(seed: int, count: int = 4096) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator, dtype=torch.float64)


def cut_off(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    near = value.to(dtype)
    beyond = near.double().abs() > value.abs()
    return torch.where(beyond, torch.nextafter(near, torch.zeros_like(near)), near)


@pytest.mark.parametrize("dtype", HALVES)
def test_rounding_to_the_nearest_leans_nowhere_and_cutting_off_by_half_a_unit(dtype: torch.dtype) -> None:
    value = drawn(0)
    nearest, cut = leaning(value, value.to(dtype)), leaning(value, cut_off(value, dtype))
    assert nearest is not None
    assert cut is not None
    assert nearest == pytest.approx((0.0, 0.0), abs=0.03)
    assert cut == pytest.approx((-0.5, 0.0), abs=0.03)


def test_other_dtypes_and_a_few_elements_say_nothing() -> None:
    assert leaning(drawn(0), drawn(0).float()) is None
    assert leaning(drawn(0, 8), drawn(0, 8).half()) is None


def noted(differences: list[float]) -> Leanings:
    made = Leanings()
    for number, one in enumerate(differences):
        made.note(0, f"draw {number}", (one, 0.0), (0.0, 0.0))
    return made


def test_errors_of_one_sign_in_all_draws_are_told_and_those_that_vary_are_not() -> None:
    found = noted([-0.5, -0.48, -0.51, -0.5, -0.49, -0.5]).too_far()
    assert found == (0, "0.50 units of the last digit towards zero")
    assert noted([-1.5, 0.9, -1.1, 0.2, -0.9, 0.1]).too_far() is None
    assert noted([-0.5] * 3).too_far() is None
    assert noted([0.2] * 12).too_far() is None


def test_less_bias_than_the_references_own_is_no_fault() -> None:
    made = Leanings()
    for number in range(8):
        made.note(0, f"draw {number}", (-0.1, 0.1), (-1.2, 1.2))
        made.note(1, f"draw {number}", (0.5, 0.0), (-1.2, 0.0))
    assert made.too_far() == (1, "0.50 units of the last digit away from zero")
