"""Operators without a kernel for narrow floats on the CPU are computed wider and rounded once."""

import copy

import pytest
import torch
import torch.nn.functional as F

from kernelwright.verify.gradients import attach
from kernelwright.verify.narrow import complete, compute


class Pooled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool3d(x, 2) * 2


X = torch.randn(1, 2, 4, 4, 4, generator=torch.Generator().manual_seed(0)).bfloat16()


def test_a_pooling_that_torch_lacks_is_rounded_once() -> None:
    with pytest.raises(NotImplementedError):
        Pooled()(X)
    expected = F.avg_pool3d(X.float(), 2).bfloat16() * 2
    assert torch.equal(complete(Pooled())(X), expected)


def test_a_copy_of_a_completed_module_is_completed_and_the_double_of_it_exact() -> None:
    module = complete(complete(Pooled()))
    assert module(X).dtype == copy.deepcopy(module)(X).dtype == torch.bfloat16
    assert torch.equal(copy.deepcopy(module).double()(X.double()), F.avg_pool3d(X.double(), 2) * 2)


def test_other_errors_are_raised_and_arguments_that_nobody_writes_stay_unwritten() -> None:
    with pytest.raises(RuntimeError, match="shapes"):
        complete(torch.nn.Linear(3, 4).bfloat16())(X.new_zeros(2, 5))
    given = X.clone()
    compute(torch.ops.aten.avg_pool3d.default, (given, [2, 2, 2]), {})
    assert given._version == 0


def test_what_an_operator_writes_reaches_its_argument() -> None:
    out = torch.empty(1, 2, 2, 2, 2, dtype=torch.bfloat16)
    found = compute(torch.ops.aten.avg_pool3d.out, (X, [2, 2, 2]), {"out": out})
    assert found is out
    assert torch.equal(out, F.avg_pool3d(X.float(), 2).bfloat16())


class Normed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.table = torch.nn.LayerNorm(8), torch.nn.Embedding(4, 8)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return self.norm(x + self.table(at)) + self.table.weight[at]


def test_gradients_of_many_rows_are_summed_in_single_precision() -> None:
    generator = torch.Generator().manual_seed(0)
    module = complete(attach(Normed().bfloat16(), [0]))
    x = torch.randn(2048, 8, generator=generator).bfloat16()
    at = torch.randint(4, (2048,), generator=generator)
    found, exact = (
        one(*(x.to(dtype), at, torch.ones(2048, 8, dtype=dtype)))
        for one, dtype in ((module, torch.bfloat16), (copy.deepcopy(module).double(), torch.float64))
    )
    for one, right in zip(found["parameters"], exact["parameters"], strict=True):
        assert float((one - right).abs().max() / right.abs().max()) < 0.01
