"""torch.compile(backend="kernelwright"): kernels go in where a source has them, all else is Inductor's, values stay.

On the CPU an operator runs its graph by ATen, so that all but the launch is tested here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from kernelwright.compile_backend import kernelwright_backend, last_report, use_source
from kernelwright.compile_backend.operators import operator_for
from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import partition
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Timing, Verdict

CODE = "def kernel(*values):\n    raise AssertionError('the CPU runs the graph')\n"
ALWAYS = {"replace": "always"}


class Known:
    """Has a kernel for every group that `wanted` says yes to."""

    rung = "compiler"

    def __init__(self, wanted: Callable[[Graph], bool] = lambda graph: True) -> None:
        self.wanted, self.code = wanted, CODE
        self.asked: list[Graph] = []
        self.searched: list[tuple[int, float]] = []
        self.verdict = Verdict(task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING)

    def lookup(self, graph: Graph, contractions: str) -> Any:
        self.asked.append(graph)
        return self if self.wanted(graph) else None

    def search(self, graphs: Sequence[Graph], contractions: str, seconds: float) -> None:
        self.searched.append((len(graphs), seconds))


@pytest.fixture
def source() -> Iterator[Callable[..., Known]]:
    def use(*arguments: Any) -> Known:
        known = Known(*arguments)
        use_source(known)
        torch._dynamo.reset()
        return known

    yield use
    use_source(None)
    torch._dynamo.reset()


class Block(nn.Module):
    """A norm, a gated MLP, a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(32)
        self.up, self.down = nn.Linear(32, 64), nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = self.up(self.norm(x)).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * value)


def compiled(module: nn.Module, **options: Any) -> Any:
    return torch.compile(module, backend=kernelwright_backend, options={**ALWAYS, **options})


def test_values_and_gradients_stay(source: Callable[..., Known]) -> None:
    source()
    module, x = Block(), torch.randn(4, 8, 32, requires_grad=True)
    fast = compiled(module)
    expected = module(x)
    torch.testing.assert_close(fast(x), expected)
    (wanted,) = torch.autograd.grad(expected.square().sum(), x)
    (got,) = torch.autograd.grad(fast(x).square().sum(), x)
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
    assert len(last_report().graphs) == 2  # forward and backward
    assert all(graph.replaced for graph in last_report().graphs)


def test_what_has_no_kernel_is_inductors(source: Callable[..., Known]) -> None:
    known = source(lambda graph: False)
    module, x = Block(), torch.randn(4, 32)
    torch.testing.assert_close(compiled(module)(x), module(x))
    assert known.asked
    assert last_report().replaced == []


def test_only_the_groups_that_win_are_replaced(source: Callable[..., Known]) -> None:
    source(
        lambda graph: any(
            "silu" in node.op or "sigmoid" in node.op or "exp" in node.op for node in graph.nodes
        )
    )
    module, x = Block(), torch.randn(4, 32)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(x), module(x))
    [graph] = last_report().graphs
    assert 0 < len(graph.replaced) < len(graph.groups)


def test_a_modelled_time_is_no_reason(source: Callable[..., Known]) -> None:
    from kernelwright.compile_backend.backend import beats_inductor

    def verdict(kind: Any, low: float) -> Verdict:
        timing = Timing(
            kind=kind, target="h200", candidate_ms=1.0, candidate_ci=(0.9, 1.1),
            baseline_ms={"eager": 3.0, "compile": 1.2}, speedup_ci={"eager": (2.9, 3.1), "compile": (low, 1.3)},
        )  # fmt: skip
        return Verdict(task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING, timing=timing)

    assert beats_inductor(verdict("measured", 1.1))
    assert not beats_inductor(verdict("measured", 0.9))
    assert not beats_inductor(verdict("modelled", 1.1))


def test_sizes_may_vary(source: Callable[..., Known]) -> None:
    source()
    module = Block()
    fast = torch.compile(module, backend=kernelwright_backend, options=ALWAYS, dynamic=True)
    for batch, length in ((2, 8), (5, 12), (7, 3)):
        x = torch.randn(batch, length, 32)
        torch.testing.assert_close(fast(x), module(x))
    assert len(last_report().graphs) <= 2
    assert last_report().replaced


def test_dropout_and_writes_are_passed_by(source: Callable[..., Known]) -> None:
    source()

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("calls", torch.zeros(()))
            self.norm = nn.BatchNorm1d(8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return nn.functional.dropout(self.norm(x.relu()), 0.5, self.training).mul(2).tanh()

    module = Counting()
    fast = compiled(module)
    fast(torch.randn(16, 8))
    assert module.calls == 1
    assert module.norm.num_batches_tracked == 1
    module.eval()
    x = torch.randn(16, 8)
    torch.testing.assert_close(fast(x), module(x))


def test_a_search_gets_the_groups_and_its_seconds(source: Callable[..., Known]) -> None:
    known = source()
    with torch.no_grad():
        compiled(Block(), search=7)(torch.randn(4, 32))
    assert known.searched[0][0] >= 2
    assert known.searched[0][1] == 7


def test_a_kernel_that_cannot_be_loaded_is_left_out(source: Callable[..., Known]) -> None:
    source().code = "def kern(:"
    module, x = Block(), torch.randn(4, 32)
    torch.testing.assert_close(compiled(module)(x), module(x))
    assert last_report().replaced == []


@pytest.mark.parametrize("options", [{"search": -1}, {"contractions": "cublas"}, {"replace": "never"}])
def test_a_wrong_option_is_one_line(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="options: "):
        kernelwright_backend(torch.fx.symbolic_trace(nn.ReLU()), [torch.ones(2)], options=options)


def test_the_backend_is_found_by_name() -> None:
    assert "kernelwright" in torch._dynamo.list_backends()


def test_operators_pass_opcheck() -> None:
    module, x = Block().to(torch.float64), torch.randn(3, 32, dtype=torch.float64)
    captured = capture(module, (x,)).graph
    checked = 0
    for group in partition(captured).groups:
        operator = operator_for(group.graph, CODE)
        values = [_value(one.type) for one in group.graph.arguments]
        torch.library.opcheck(operator, values)
        checked += 1
    assert checked >= 2


def _value(type_: Any) -> Any:
    shape = [size if isinstance(size, int) else 3 for size in type_.shape]
    return torch.rand(shape, dtype=getattr(torch, type_.dtype)) + 0.1
