"""Under torch.compile a drop-in is one operator, which checks at run time whether its kernels are still valid."""

from typing import Any

import pytest
import torch
from drop_in.making import Block, counted, made
from torch import nn

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    torch._dynamo.reset()
    return made(Block().eval(), X)


def test_it_runs_its_kernels_in_one_graph(fast: Any) -> None:
    runs = counted(fast)

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fast = fast

        def forward(self, x: torch.Tensor) -> Any:
            return self.fast(x).relu()

    compiled = torch.compile(Outer(), backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), fast.original(X).relu())
    assert len(runs) == 2


def test_what_changes_after_compilation_is_seen(fast: Any) -> None:
    runs = counted(fast)
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        compiled(X)
        fast.proj.weight.mul_(2)
        torch.testing.assert_close(compiled(X), fast.original(X))
        assert len(runs) == 2
        fast.config.scale = 9.0
        with pytest.warns(RuntimeWarning, match="attribute config was changed"):
            torch.testing.assert_close(compiled(X), fast.original(X))
    assert len(runs) == 2


def test_gradients_and_other_shapes_go_through_the_module(fast: Any) -> None:
    runs = counted(fast)
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    compiled(X).sum().backward()
    assert fast.proj.weight.grad is not None
    with torch.no_grad():
        other = torch.randn(6, 8)
        torch.testing.assert_close(compiled(other), fast.original(other))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert compiled(X).dtype == fast.original(X).dtype
    assert runs == []


def test_weights_that_are_returned_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler takes an operator's results for new memory, and may write there."""

    class Shows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8), requires_grad=False)

        def forward(self, x: torch.Tensor) -> Any:
            y = x * self.scale
            return y, y[0], self.scale

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    fast = made(Shows(), X)
    made_here = fast._kernelwright.flat([X])
    torch.testing.assert_close(made_here, list(fast.original(X)))
    assert len({one.untyped_storage().data_ptr() for one in (*made_here, fast.scale, X)}) == 5


def test_the_operator_is_well_formed(fast: Any) -> None:
    torch.library.opcheck(
        torch.ops.kernelwright.drop_in.default,
        ([X], type(fast).kernelwright_handle),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )
