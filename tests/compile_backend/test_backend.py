"""torch.compile(backend="kernelwright"): uses kernels where a source has them and Inductor elsewhere, with unchanged results.

On the CPU an operator runs its graph by ATen, so that everything except launches is tested here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch._inductor.compile_fx as compile_fx
import torch._inductor.config as config
from torch import nn
from torch.nn import functional

from kernelwright.compile_backend import (
    backend,
    compiling,
    kernelwright_backend,
    last_report,
    splice,
    use_source,
)
from kernelwright.compile_backend.operators import operator_for
from kernelwright.compile_backend.race import Race
from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import partition
from kernelwright.graph.shrink import shrink
from kernelwright.graph.types import TensorType
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Timing, Verdict
from kernelwright.search.cache import Answer, Entry

CODE = "def kernel(*values):\n    raise AssertionError('the CPU runs the graph')\n"
ALWAYS = {"replace": "always"}


class Known:
    """Has a kernel for every group that `wanted` accepts."""

    def __init__(self, wanted: Callable[[Graph], bool] = lambda graph: True) -> None:
        self.wanted, self.code = wanted, CODE
        self.asked: list[Graph] = []
        self.searched: list[tuple[int, float]] = []
        self.sought: list[Graph] = []
        self.verdict = Verdict(task_id="t", outcome=Outcome.CORRECT, gate=Gate.TIMING)

    def lookup(self, graph: Graph, contractions: str) -> Any:
        self.asked.append(graph)
        if not self.wanted(graph):
            return Entry(tried={"compiler": "unsupported"})
        return Entry(best=Answer(graph=graph.digest, rung="compiler", code=self.code, verdict=self.verdict))

    def search(self, graphs: Sequence[Graph], contractions: str, seconds: float) -> None:
        self.searched.append((len(graphs), seconds))
        self.sought += graphs


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
    assert [one.replaced for one in last_report().choices].count(True) == len(graph.replaced)
    assert {one.why for one in last_report().choices} == {"compiler: not timed", "compiler: unsupported"}


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


def test_sizes_may_vary_where_arguments_have_their_multiples_alone(source: Callable[..., Known]) -> None:
    """Four heads of eight: the scores' group gets `4*batch` matrices, and another group `batch*length` rows."""
    source()

    def called(x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = x.view(batch, length, 4, 8).transpose(1, 2).relu()
        scores = (heads @ heads.mT).view(batch, 4, length, length).softmax(-1)
        place = torch.arange(batch * length)[:, None] * x.reshape(-1, 32).argmax(-1, keepdim=True)
        return (scores @ heads).sum() + place.cumsum(0).remainder(7).sum()

    fast = torch.compile(called, backend=kernelwright_backend, options=ALWAYS, dynamic=True)
    for batch, length in ((2, 5), (3, 7)):
        x = torch.randn(batch, length, 32)
        torch.testing.assert_close(fast(x), called(x))
    assert [one.left for one in last_report().graphs] == [[]]
    assert last_report().replaced


def test_a_square_image_of_any_size_is_searched_for_at_small_sizes(source: Callable[..., Known]) -> None:
    """Height and width are one size; torch writes the rows of an image after a linear layer as `s1*s1 // s1`."""
    known = source()
    conv, up = nn.Conv2d(8, 8, 7, padding=3, groups=8), nn.Linear(8, 32)

    def called(x: torch.Tensor) -> torch.Tensor:
        return functional.gelu(up(conv(x).permute(0, 2, 3, 1))).permute(0, 3, 1, 2) * 2

    options = {**ALWAYS, "search": 1}
    fast = torch.compile(called, backend=kernelwright_backend, options=options, dynamic=True)
    x = torch.randn(2, 8, 28, 28)
    torch.testing.assert_close(fast(x), called(x))
    assert known.sought
    for graph in known.sought:
        shapes = [one.type.shape for one in graph.arguments if isinstance(one.type, TensorType)]
        assert not any("//" in str(size) for one in shapes for size in one)
        small = shrink(graph)
        assert {"small", "small_odd"} <= small.shapes.keys()
        assert {one.name for one in graph.symbols} <= {one.name for one in small.graph.symbols}


def test_a_size_may_be_handed_over_twice(source: Callable[..., Known]) -> None:
    source()

    def called(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        torch._check(x.shape[0] == y.shape[0])
        zeros = torch.zeros(y.shape[0], dtype=torch.long)
        made = torch.cat([(x * y).sum(1, keepdim=True), x @ x.T], 1)
        return functional.cross_entropy(made, zeros), torch.zeros(x.shape[0], 2) + made[:, :2]

    fast = torch.compile(called, backend=kernelwright_backend, options=ALWAYS)
    for rows in (4, 5, 7):
        x, y = torch.randn(rows, 8), torch.randn(rows, 8)
        torch.testing.assert_close(fast(x, y), called(x, y))
    assert [one.left for one in last_report().graphs] == [[], []]


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


@pytest.mark.parametrize(
    "options", [{"search": -1}, {"contractions": "cublas"}, {"replace": "never"}, {"serch": 60}]
)
def test_a_wrong_option_is_one_line(options: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="options: "):
        kernelwright_backend(torch.fx.symbolic_trace(nn.ReLU()), [torch.ones(2)], options=options)


def test_the_backend_is_found_by_name() -> None:
    assert "kernelwright" in torch._dynamo.list_backends()


OPERATORS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "relu": (torch.relu, ((4, 8),)),
    "gelu": (functional.gelu, ((4, 8),)),
    "gelu by tanh": (lambda x: functional.gelu(x, approximate="tanh"), ((4, 8),)),
    "silu and a product": (lambda x, y: functional.silu(x) * y, ((4, 8), (4, 8))),
    "softmax": (lambda x: x.softmax(-1), ((4, 8),)),
    "log softmax": (lambda x: x.log_softmax(0), ((4, 8),)),
    "layer norm": (lambda x, w, b: functional.layer_norm(x, (8,), w, b), ((4, 8), (8,), (8,))),
    "RMS norm": (lambda x, w: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w, ((4, 8), (8,))),
    "group norm": (lambda x: functional.group_norm(x, 2), ((2, 4, 6),)),
    "sum over rows": (lambda x: x.sum(0), ((4, 8),)),
    "mean and variance": (lambda x: (x.mean(-1), x.var(-1)), ((4, 8),)),
    "largest and where": (lambda x: x.max(-1), ((4, 8),)),
    "running sum": (lambda x: x.cumsum(-1), ((4, 8),)),
    "linear": (functional.linear, ((4, 8), (6, 8), (6,))),
    "batched product": (torch.bmm, ((2, 4, 8), (2, 8, 3))),
    "convolution": (lambda x, w: functional.conv2d(x, w, padding=1), ((1, 2, 6, 6), (3, 2, 3, 3))),
    "largest of windows": (lambda x: functional.max_pool2d(x, 2), ((1, 2, 6, 6),)),
    "attention": (functional.scaled_dot_product_attention, ((1, 2, 4, 8), (1, 2, 4, 8), (1, 2, 4, 8))),
    "parts side by side": (lambda x, y: torch.cat([x, y], -1), ((4, 8), (4, 3))),
    "upsampling": (lambda x: functional.interpolate(x, scale_factor=2), ((1, 2, 4, 4),)),
    "cross entropy": (lambda x: -x.log_softmax(-1)[:, 0].mean(), ((4, 8),)),
    "rotation": (lambda x: torch.cat([-x[..., 4:], x[..., :4]], -1) * x, ((4, 8),)),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS, ids=list(OPERATORS))
def test_operators_pass_opcheck(name: str) -> None:
    function, shapes = OPERATORS[name]
    values = [torch.rand(shape, dtype=torch.float64) + 0.1 for shape in shapes]
    graph = capture(function, values).graph
    torch.library.opcheck(operator_for(graph, CODE), values)


def test_groups_with_weights_pass_opcheck() -> None:
    module, x = Block().to(torch.float64), torch.randn(3, 32, dtype=torch.float64)
    groups = partition(capture(module, (x,)).graph).groups
    assert len(groups) >= 2
    for group in groups:
        torch.library.opcheck(
            operator_for(group.graph, CODE), [_value(one.type) for one in group.graph.arguments]
        )


def _value(type_: Any) -> Any:
    shape = [size if isinstance(size, int) else 3 for size in type_.shape]
    return torch.rand(shape, dtype=getattr(torch, type_.dtype)) + 0.1


class Constants(nn.Module):
    """Reads constants that Inductor folds before our pass, as with rotary positions and masks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(8, dtype=torch.float32)
        mask = torch.full((8, 8), 2.0) + torch.zeros(8)
        return (x * mask * positions.cos()).softmax(-1) + torch.ones(8)


def test_constants_that_inductor_folds(
    source: Callable[..., Known], caplog: pytest.LogCaptureFixture
) -> None:
    source()
    module, x = Constants(), torch.randn(4, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(x), module(x))
    assert last_report().replaced
    assert not [one for one in caplog.records if one.name.startswith("kernelwright")]


class AfterAttention(nn.Module):
    """Half precision: Inductor computes its maps in float32 between casts of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        length, index = torch.ops.aten.topk(x, 8, -1)
        return functional.gelu(self.up(torch.cat([length, length * index], -1)))


def test_casts_join_groups_and_results_of_calls_outside_are_read(source: Callable[..., Known]) -> None:
    source()
    module, x = AfterAttention().to(torch.bfloat16), torch.randn(4, 16, dtype=torch.bfloat16)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(x), module(x), atol=2e-2, rtol=2e-2)
    assert any(one.startswith(("addmm+to_copy+mul+erf", "addmm+mul+erf")) for one in last_report().replaced)
    assert not any(one.left for one in last_report().graphs)


def test_a_graph_is_compiled_once_without_kernels_and_searched_for_once(
    source: Callable[..., Known], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "_on_gpu", lambda examples: True)
    monkeypatch.setattr(compiling, "race", lambda *_: Race(2.0, 1.0))
    compiled_graphs: list[Any] = []
    compile_once = compiling.Compiling._compile
    monkeypatch.setattr(
        compiling.Compiling,
        "_compile",
        lambda self, change: compiled_graphs.append(change) or compile_once(self, change),
    )
    module, x = Block(), torch.randn(4, 32)
    source(lambda graph: False)
    with torch.no_grad():
        torch.compile(module, backend=kernelwright_backend)(x)
    assert len(compiled_graphs) == 1
    known = source()
    with torch.no_grad():
        compiled(module, search=1.0)(x)
    assert len(known.searched) == 1


@pytest.mark.slow
@pytest.mark.parametrize("won", [True, False])
def test_the_loser_of_the_race_leaves_nothing_behind(
    source: Callable[..., Known], monkeypatch: pytest.MonkeyPatch, won: bool
) -> None:
    """Forward and backward are tried with all kernels, then with fewer while that loses; the winner's strides are AOTAutograd's."""
    monkeypatch.setattr(backend, "_on_gpu", lambda examples: True)
    monkeypatch.setattr(compiling, "race", lambda *_: Race(1.0, 2.0) if won else Race(2.0, 1.0))
    source()
    module, x = Block(), torch.randn(4, 8, 32, requires_grad=True)
    fast = compiled(module)
    torch.testing.assert_close(fast(x), module(x))
    fast(x).square().sum().backward()
    assert len(last_report().races) == 2 if won else len(last_report().races) > 2
    assert last_report().kept == (2 if won else 0)
    assert bool(last_report().replaced) == won


def test_a_fault_of_ours_leaves_the_model_to_inductor(
    source: Callable[..., Known], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(*_: Any) -> None:
        raise AssertionError("a fault of ours")

    source()
    monkeypatch.setattr(splice, "_write", failing)
    module, x = Block(), torch.randn(4, 32)
    torch.testing.assert_close(compiled(module)(x), module(x))
    assert "a fault of ours" in caplog.text


def test_where_all_kernels_lose_they_are_added_one_by_one(
    source: Callable[..., Known], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that favours wholes with one of our kernels keeps exactly one."""
    count = {"now": 0}
    run = compiling.Compiling.run

    def counted(self: Any, change: Any) -> Any:
        made = run(self, change)
        count["now"] = len({name for _, name in change.done.replaced}) if change.done else 0
        return made

    monkeypatch.setattr(backend, "_on_gpu", lambda examples: True)
    monkeypatch.setattr(compiling.Compiling, "run", counted)
    monkeypatch.setattr(compiling, "race", lambda *_: Race(1.0, 2.0) if count["now"] == 1 else Race(2.0, 1.0))
    monkeypatch.setattr(backend, "beats_inductor", lambda *_: True)
    source()
    module, x = Block().eval(), torch.randn(4, 8, 32)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module)(x), module(x))
    (graph,) = last_report().graphs
    assert len({name for _, name in graph.replaced}) == 1 < len(graph.groups)


class Convolutions(nn.Module):
    """A plain and a depthwise convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(6, 8, 3, padding=1), nn.Conv2d(8, 8, 5, padding=2, groups=8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(functional.relu(self.first(x)))


@pytest.mark.parametrize("wanted", ["both", "weights", "none"])
def test_gradients_of_a_convolution_are_asked_for_one_by_one(
    wanted: str, source: Callable[..., Known]
) -> None:
    """If one of the two has a kernel, ATen computes the other; if none has, the call is whole again."""

    def known(graph: Graph) -> bool:
        found = [node for node in graph.nodes if "convolution_backward" in node.op]
        each = [[one is not None for one in node.outputs] for node in found]
        return (
            any(one == [False, True, False] or (wanted == "both" and one[0]) for one in each)
            and wanted != "none"
        )

    source(known)
    module, x = Convolutions(), torch.randn(2, 6, 9, 7, requires_grad=True)
    fast = compiled(module)
    expected = torch.autograd.grad(module(x).square().sum(), [x, *module.parameters()])
    got = torch.autograd.grad(fast(x).square().sum(), [x, *module.parameters()])
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-3)
    replaced = [one for one in last_report().replaced if "convolution_backward" in one]
    assert len(replaced) == {"both": 4, "weights": 2, "none": 0}[wanted]


def test_what_is_saved_for_the_backward_graph_keeps_its_layout_where_sizes_vary(
    source: Callable[..., Known],
) -> None:
    """AOTAutograd takes strides that differ from the traced ones for fixed: the backward graph failed at the second size."""
    source()
    weight = torch.randn(3, 16, 16, requires_grad=True)

    def experts(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        each = torch.einsum("nd,edf->enf", x, weight)
        return torch.einsum("ne,enf->nf", gate, torch.einsum("enf,efd->end", each.sin() * each, weight))

    fast = torch.compile(experts, backend=kernelwright_backend, options=ALWAYS, dynamic=True)
    for rows in (10, 13):
        x, gate = torch.randn(rows, 16, requires_grad=True), torch.randn(rows, 3, requires_grad=True)
        made, wanted = (torch.autograd.grad(one(x, gate).sum(), (x, gate, weight)) for one in (fast, experts))
        torch.testing.assert_close(made, wanted, rtol=1e-4, atol=1e-4)
    assert last_report().replaced


@pytest.mark.parametrize("won", [True, False])
def test_inductor_runs_under_the_settings_that_win(
    source: Callable[..., Known], monkeypatch: pytest.MonkeyPatch, won: bool
) -> None:
    """Convolutions race in their own layout, too, and everything with more configurations tried; not without search seconds."""
    monkeypatch.setattr(backend, "_on_gpu", lambda examples: True)
    monkeypatch.setattr(compiling, "race", lambda *_: Race(1.0, 2.0) if won else Race(2.0, 1.0))
    under: list[tuple[bool, bool]] = []
    own = compile_fx.compile_fx_inner

    def noted(*args: Any, **kwargs: Any) -> Any:
        under.append((config.layout_optimization, config.max_autotune_pointwise))
        return own(*args, **kwargs)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", noted)
    source(lambda graph: False)
    module, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module, search=1.0)(x), module(x))
    both = {"layout_optimization": False, "max_autotune_pointwise": True}
    assert last_report().settings == [both if won else {}]
    assert under[:3] == [(True, False), (False, False), (not won, True)]
    assert under[-1] == ((False, True) if won else (True, False))
    under.clear()
    torch._dynamo.reset()
    with torch.no_grad():
        compiled(module)(x)
    assert set(under) == {(True, False)}


def test_a_setting_under_which_compilation_fails_is_passed_over(
    source: Callable[..., Known], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(backend, "_on_gpu", lambda examples: True)
    monkeypatch.setattr(compiling, "race", lambda *_: Race(1.0, 2.0))
    monkeypatch.setattr(compiling, "SETTINGS", ({"max_autotune_pointwise": True},))
    own = compile_fx.compile_fx_inner

    def failing(*args: Any, **kwargs: Any) -> Any:
        if config.max_autotune_pointwise:
            raise RuntimeError("no such configuration")
        return own(*args, **kwargs)

    monkeypatch.setattr(compile_fx, "compile_fx_inner", failing)
    source(lambda graph: False)
    module, x = Block(), torch.randn(4, 32)
    with torch.no_grad():
        torch.testing.assert_close(compiled(module, search=1.0)(x), module(x))
    assert last_report().settings == [{}]
    assert "no such configuration" in caplog.text
