"""Inputs of few elements in which a reference is not linear: they are scaled by themselves at long sizes."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from kernelwright.verify.reference.oracle import few_that_bend
from kernelwright.verify.reference.roundings import largest_moves, logs_of_decays

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


def test_of_many_the_reference_is_run_for_none() -> None:
    def never(*given: torch.Tensor) -> torch.Tensor:
        raise AssertionError

    assert few_that_bend(Model(never), [X, *[FEW] * 40]) == set(range(1, 41))


def _stepped(x: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    state, states = torch.zeros(x.shape[0], dtype=x.dtype), []
    for step in range(x.shape[1]):
        state = state * torch.exp(decay[:, step]) + x[:, step]
        states.append(state)
    return torch.stack(states, 1)


def test_logarithms_of_decays_are_negative_and_exponentiated() -> None:
    assert logs_of_decays(Model(_stepped), [X, -X.abs()]) == {1}
    assert logs_of_decays(Model(_stepped), [-X.abs(), X]) == set()
    assert logs_of_decays(Model(lambda x, y: x * y), [X, -X.abs()]) == set()


def test_decays_may_be_differences_of_running_sums() -> None:
    decay = torch.full_like(X, -0.1)
    decay[:, 3] = -4000.0
    inputs, module = [X, decay], Model(_stepped)
    sums = decay.cumsum(1)
    factors = (sums[:, :, None] - sums[:, None, :]).tril().exp().tril()
    exact = _stepped(X.double(), decay.double())
    errors = ((factors @ X[:, :, None]).squeeze(-1).double() - exact).abs()
    (moved,) = largest_moves(module, inputs, [exact])
    assert float(errors.max()) > 1e-4
    assert bool((errors <= 8.0 * moved).all())
