"""Operators without a kernel for narrow floats on the CPU are computed wider and rounded once."""

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from kernelwright.graph.narrow import complete, compute, computed
from kernelwright.verify.gradients import attach
from kernelwright.verify.structures import flatten


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


def test_what_a_module_adds_in_place_is_added() -> None:
    class Added(torch.nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
            return torch.zeros(4, dtype=x.dtype).index_put_((at,), x, accumulate=True)

    found = complete(Added())(torch.ones(3).bfloat16(), torch.tensor([0, 0, 2]))
    assert found.tolist() == [2.0, 0.0, 1.0, 0.0]


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


def drawn(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator).half()


def gradients(function: Callable[..., torch.Tensor], *args: torch.Tensor) -> Sequence[torch.Tensor]:
    """With respect to each argument, of the sum of what is made of them."""
    args = tuple(one.detach().requires_grad_() for one in args)
    made = function(*args)
    return torch.autograd.grad(made, args, torch.ones_like(made))


def strided(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.conv2d(x, weight, stride=2)


HEADS = drawn(1, 2, 33, 8), drawn(1, 2, 32, 8), drawn(1, 2, 32, 8)
IMAGES, FILTERS = drawn(2, 4, 33, 33), drawn(6, 4, 3, 3)
MATRICES = drawn(2, 8, 8), drawn(2, 8, 64), drawn(2, 64, 8)
PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "product": (torch.mm, (drawn(16, 64), drawn(64, 16))),
    "several": (torch.baddbmm, MATRICES),
    "summed": (torch.addbmm, (drawn(8, 8), *MATRICES[1:])),
    "written": (lambda a, b, c: a.clone().addmm_(b, c), (drawn(16, 16), drawn(16, 64), drawn(64, 16))),
    "bilinear": (F.bilinear, (drawn(4, 16), drawn(4, 8), drawn(5, 16, 8))),
    "convolution": (strided, (IMAGES, FILTERS)),
    "transposed": (F.conv_transpose1d, (drawn(2, 4, 9), drawn(4, 6, 3))),
    "of a convolution": (functools.partial(gradients, strided), (IMAGES, FILTERS)),
    "attention": (F.scaled_dot_product_attention, HEADS),
    "of attention": (functools.partial(gradients, F.scaled_dot_product_attention), HEADS),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_float16_are_rounded_once_and_as_near_to_fp64_as_those_of_torch(name: str) -> None:
    function, args = PRODUCTS[name]
    own = flatten(function(*args))
    with computed(args):
        found = flatten(function(*args))
    single, exact = (flatten(function(*(one.to(as_) for one in args))) for as_ in (torch.float, torch.double))
    for mine, theirs, once, right in zip(found, own, single, exact, strict=True):
        assert torch.equal(mine, once.half()) or name == "of attention"  # whose result was rounded before
        assert (mine - right).norm() <= 1.001 * (theirs - right).norm()


class Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.dtypes: list[torch.dtype] = []
        """Of the first argument of each operator."""

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        self.dtypes.append(args[0].dtype)
        return func(*args, **kwargs or {})


def test_modes_that_are_entered_already_see_operators_as_they_were_called() -> None:
    """Such as those that round operands or record traffic. They are there again after an error."""
    module, seen = complete(torch.nn.Conv1d(4, 6, 3).half()), Seen()
    x = drawn(2, 4, 9)
    with torch.no_grad(), seen:
        made = module(x)
        assert set(seen.dtypes) == {torch.float16}
        seen.dtypes.clear()
        with pytest.raises(RuntimeError):
            module(x[:, :2])
        assert x.sin().dtype in seen.dtypes
    right = F.conv1d(x.float(), module.weight.float(), module.bias.float()).half()
    assert torch.equal(made, right)


def test_products_in_bfloat16_and_double_are_left_to_torch() -> None:
    for dtype in (torch.bfloat16, torch.float64):
        a, b = drawn(16, 64).to(dtype), drawn(64, 16).to(dtype)
        seen = Seen()
        with seen:
            made = compute(torch.ops.aten.mm.default, (a, b), {})
        assert seen.dtypes == [dtype]
        assert torch.equal(made, a @ b)
