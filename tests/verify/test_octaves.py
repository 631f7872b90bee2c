"""Weights of a softmax in half precision are held to their own digits, octave by octave."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.verify.protocol import PROTOCOLS
from kernelwright.verify.reference.cases import Case, make_case
from kernelwright.verify.reference.comparison import compare_or_round

STRICT = PROTOCOLS["strict"]
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


class Model(nn.Module):
    def __init__(self, forward: Callable[..., Any]) -> None:
        super().__init__()
        self.forward = forward


def case_of(forward: Callable[..., Any], dtype: torch.dtype) -> Case:
    x = torch.randn(16, 128, generator=torch.Generator().manual_seed(0)).to(dtype)
    case = make_case("x1", Model(forward), [x], STRICT)
    assert case is not None
    return case


def kind(case: Case, got: torch.Tensor) -> str:
    return compare_or_round(0, got, case.expected[0], STRICT, lambda: case.with_roundings()[0]).kind


@DTYPES
def test_small_weights_set_to_zero_are_noticed(dtype: torch.dtype) -> None:
    case = case_of(lambda x: torch.softmax(2.0 * x, -1), dtype)
    exact = case.expected[0].value.to(dtype)
    assert not kind(case, exact)
    small = 0.25 * torch.finfo(dtype).eps * exact.amax(-1, keepdim=True)
    few = torch.where(exact < small, 0.0, exact)
    assert kind(case, few) == "low_precision"


@DTYPES
def test_one_more_rounding_is_not(dtype: torch.dtype) -> None:
    case = case_of(lambda x: torch.softmax(2.0 * x, -1), dtype)
    x = 2.0 * case.inputs[0].float()
    weights = (x - x.amax(-1, keepdim=True)).exp().to(dtype).float()
    assert not kind(case, (weights / weights.sum(-1, keepdim=True)).to(dtype))


def test_what_follows_a_softmax_is_judged_as_before() -> None:
    assert case_of(lambda x: torch.softmax(x, -1), torch.bfloat16).expected[0].octaves is not None
    assert (
        case_of(lambda x: torch.softmax(x.float(), -1).to(x.dtype).t(), torch.bfloat16).expected[0].octaves
        is not None
    )
    assert case_of(lambda x: torch.softmax(x, -1) + 1.0, torch.bfloat16).expected[0].octaves is None
    assert case_of(lambda x: torch.softmax(x, -1).mul_(2.0), torch.bfloat16).expected[0].octaves is None
    assert case_of(lambda x: torch.softmax(x.float(), -1), torch.bfloat16).expected[0].octaves is None
