"""Inputs of few elements in which a reference is not linear: they are scaled by themselves at long sizes."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelwright.verify.reference.oracle import few_that_bend

X = torch.randn(4, 64, generator=torch.Generator().manual_seed(0))
FEW = torch.tensor([0.75])


class Model(nn.Module):
    def __init__(self, forward: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.forward = forward


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_rate_bends_the_reference(dtype: torch.dtype) -> None:
    model = Model(lambda x, rate: x * torch.exp(-rate * torch.arange(x.shape[1])))
    assert few_that_bend(model, [X.to(dtype), FEW.to(dtype)]) == {1}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gain_and_an_offset_do_not(dtype: torch.dtype) -> None:
    model = Model(lambda x, gain, offset: x * gain + offset)
    assert few_that_bend(model, [X.to(dtype), FEW.to(dtype), FEW.to(dtype)]) == set()


def test_inputs_of_many_elements_are_not_asked() -> None:
    assert few_that_bend(Model(lambda x, y: x.exp() * y.exp()), [X, X]) == set()
