"""The library: a module in, a drop-in out; saved, loaded, exported, cached; and one line for each kind of bad input."""

import importlib.util
import json
import random
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from drop_in.making import Block, counted, made
from torch import Tensor, nn

import kernelwright
from kernelwright import api
from kernelwright.drop_in import Optimized
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.graph.partition import partition
from kernelwright.graph.stitch import candidate, stitch
from kernelwright.graph.types import Graph
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Task, Timing, Verdict
from kernelwright.search.rung import CannotWrite

X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))


class AtenRung:
    """Replaces the compiler: writes the graph's own ATen calls, except for graphs that `refuses` accepts."""

    name = "compiler"
    asked = 0
    refuses: Callable[[Graph], str] = staticmethod(lambda graph: "")

    def __init__(self, target: str, contractions: str = "own") -> None:
        pass

    def start(self) -> None:
        pass

    def write(self, graph: Graph, sizes: Any, seconds: float) -> str:
        type(self).asked += 1
        if why := type(self).refuses(graph):
            raise CannotWrite(why)
        return written(graph)


def written(graph: Graph) -> str:
    """A graph's ATen calls as a kernel."""
    text = candidate(stitch(partition(graph), {}), graph, "run")
    return text + "\n\ndef kernel(*given):\n    return ModelNew()(*given)\n"


class EmptyLibrary:
    """A library without a nest for any graph."""

    name = "library"

    def __init__(self, target: str, precision: str) -> None:
        pass

    def write(self, graph: Graph, sizes: Any, seconds: float) -> str:
        raise CannotWrite("no loop nest fits")


class Judge:
    """Accepts candidates according to `accepts`, with speedup `gain`."""

    gain, takes = 2.0, 0.0
    accepts: Callable[[Candidate], bool] = staticmethod(lambda candidate: True)

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        future: Future[Verdict] = Future()
        if type(self).takes:
            return future
        if not type(self).accepts(candidate):
            wrong = Verdict(
                task_id=task.id, outcome=Outcome.WRONG_VALUE, gate=Gate.SMALL, detail="output 0 is off"
            )
            future.set_result(wrong)
            return future
        gain = type(self).gain
        timing = Timing(
            kind="modelled", target="h200", candidate_ms=1 / gain, candidate_ci=(1 / gain, 1 / gain),
            baseline_ms={"eager": 1.0, "compile": 1.0}, speedup_ci={"eager": (gain, gain), "compile": (gain, gain)},
        )  # fmt: skip
        future.set_result(Verdict(task_id=task.id, outcome=Outcome.CORRECT, gate=Gate.TIMING, timing=timing))
        return future


warmed: list[str] = []
"""Targets of judges that were started in advance."""


@pytest.fixture(autouse=True)
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """ATen calls instead of kernels, and a judge that answers at once."""

    @contextmanager
    def judge(*args: Any) -> Iterator[Judge]:
        yield Judge()

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr("kernelwright.verify.opened.judge", judge)
    monkeypatch.setattr("kernelwright.verify.opened.warm_up", warmed.append)
    monkeypatch.setattr("kernelwright.search.rungs.CompilerRung", AtenRung)
    monkeypatch.setattr("kernelwright.search.rungs.LibraryRung", EmptyLibrary)
    monkeypatch.setattr(api, "RUNGS", ("compiler", "library"))
    for cls, name, value in [
        (AtenRung, "asked", 0), (AtenRung, "refuses", staticmethod(lambda graph: "")), (Judge, "gain", 2.0),
        (Judge, "takes", 0.0), (Judge, "accepts", staticmethod(lambda candidate: True)),
    ]:  # fmt: skip
        monkeypatch.setattr(cls, name, value)


def block() -> Block:
    torch.manual_seed(0)
    return Block().requires_grad_(False).eval()


def optimized(
    module: Any, *inputs: Any, folder: Any = False, args: bool = True, **options: Any
) -> tuple[Any, list[str]]:
    """(result, warnings); without `args`, the one input unchanged."""
    with warnings.catch_warnings(record=True) as judged:
        warnings.simplefilter("always")
        found = kernelwright.optimize(
            module, inputs if args else inputs[0], cache=folder, quiet=True, **{"seconds": 300.0, **options}
        )
    return found, [str(one.message) for one in judged if one.category is RuntimeWarning]


def test_half_precision_is_asked_of_a_module_that_is_in_it() -> None:
    with pytest.raises(
        UserError, match=r"Block is in float32: cast it and its inputs with .to\(torch.bfloat16\)"
    ):
        kernelwright.optimize(block(), X, precision="bf16", cache=False)
    with pytest.raises(
        UserError, match="unknown precision 'half': choose one of default, ieee, tf32, bf16, fp16"
    ):
        kernelwright.optimize(block(), X, precision="half", cache=False)


def test_a_module_comes_back_with_its_kernels(tmp_path: Path) -> None:
    module = block()
    fast, said = optimized(module, X, folder=tmp_path)
    assert said == []
    assert isinstance(fast, Optimized)
    assert isinstance(fast, Block)
    runs = counted(fast)
    torch.testing.assert_close(fast(X), module(X))
    assert len(runs) == 1
    assert fast.verdict.speedup() == 2.0
    assert [row.rung for row in fast.verified.rows] == ["compiler"]


def gated(x: Tensor, gate: Tensor) -> Tensor:
    return x * torch.sigmoid(gate) + OFFSET


OFFSET = torch.linspace(0, 1, 8)


class Jitters(nn.Module):
    """Draws numbers that do not reach its result."""

    def forward(self, x: Tensor) -> Tensor:
        random.random()
        np.random.rand()
        torch.rand(1)
        return x * 2.0


@pytest.mark.parametrize("case", ["accepted", "draws", "refused", "loaded"])
def test_the_callers_random_numbers_stay_the_same(case: str, tmp_path: Path) -> None:
    def states() -> list[Any]:
        return [random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()]

    if case == "loaded":
        saved = kernelwright.save(optimized(block(), X)[0], tmp_path / "block.json")
    module = {"draws": Jitters, "refused": nn.Dropout}.get(case, block)()
    before = states()
    if case == "loaded":
        kernelwright.load(saved, module)
    else:
        with pytest.raises(UserError) if case == "refused" else nullcontext():
            optimized(module, X)
    assert states() == before


def test_a_function_comes_back_as_a_module_with_its_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    fast, said = optimized(gated, X, X)
    assert said == []
    assert isinstance(fast, Optimized)
    runs = counted(fast)
    torch.testing.assert_close(fast(X, X), gated(X, X))
    assert len(runs) == 1
    AtenRung.refuses = staticmethod(lambda graph: "none today")
    assert optimized(gated, X, X)[0] is gated


def test_kernels_of_a_function_are_loaded_for_it(tmp_path: Path) -> None:
    fast, _ = optimized(gated, X, X)
    path = kernelwright.save(fast, tmp_path / "gated.json")
    again: Any = kernelwright.load(path, gated)
    torch.testing.assert_close(again(X, X), gated(X, X))
    with pytest.raises(UserError, match="found for another module than doubled"):
        kernelwright.load(path, doubled)


def doubled(x: Tensor, gate: Tensor) -> Tensor:
    return 2 * x + gate


class Both(NamedTuple):
    x: Tensor
    y: Tensor


def test_a_named_tuple_is_one_argument() -> None:
    fast, said = optimized(Says(lambda both: Both(both.x + both.y, both.x * 2)), Both(X, X + 1), args=False)
    assert said == []
    torch.testing.assert_close(fast(Both(X, X + 1)).x, X + (X + 1))


def test_the_judge_starts_while_a_module_is_captured_unless_a_cache_may_know_it(tmp_path: Path) -> None:
    warmed.clear()
    optimized(block(), X, folder=tmp_path, target="h100")
    assert warmed == ["h100"]
    optimized(block(), X, folder=tmp_path, target="h100")
    with pytest.raises(UserError):
        optimized(Block, X)
    assert warmed == ["h100"]


def test_the_second_call_asks_nobody(tmp_path: Path) -> None:
    optimized(block(), X, folder=tmp_path)
    asked = AtenRung.asked
    fast, _ = optimized(block(), X, folder=tmp_path)
    assert isinstance(fast, Optimized)
    assert AtenRung.asked == asked
    optimized(block(), torch.randn(6, 8), folder=tmp_path)
    assert AtenRung.asked > asked


def test_what_fails_in_one_piece_is_tried_group_by_group(tmp_path: Path) -> None:
    AtenRung.refuses = staticmethod(lambda graph: "" if len(graph.nodes) < 3 else "too long")
    fast, said = optimized(block(), X, folder=tmp_path)
    assert said == []
    rungs = {row.operators: row.rung for row in fast.verified.rows}
    assert rungs["linear"] == "compiler"
    assert "aten" in rungs.values()
    torch.testing.assert_close(fast(X), block()(X))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(a, b), nn.SiLU()) for a, b in [(8, 16), (16, 24), (24, 8)]]
    return nn.Sequential(*layers).requires_grad_(False).eval()


def test_groups_of_a_network_are_written_once_and_judged_in_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelwright.search.whole.MANY", 4)
    monkeypatch.setattr("kernelwright.search.whole.EACH", 0)
    judged: list[str] = []
    Judge.accepts = staticmethod(lambda candidate: not judged.append(candidate.code))
    fast, said = optimized(network(), X)
    assert said == []
    assert AtenRung.asked == 1
    assert len(judged) == 1
    assert [(row.rung, row.operators) for row in fast.verified.rows] == [("compiler", "linear+silu")] * 3
    torch.testing.assert_close(fast(X), network()(X))


def test_a_recurrence_without_products_is_asked_in_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelwright.search.whole.MANY", 4)

    def scan(x: torch.Tensor) -> torch.Tensor:
        held, made = torch.zeros_like(x[0]), []
        for step in x:
            held = torch.tanh(held + step)
            made.append(held.sum(-1))
        return torch.stack(made)

    fast, said = optimized(scan, torch.randn(4, 3, 8))
    assert said == []
    assert AtenRung.asked == 1
    assert len(fast.verified.rows) == 1


def test_a_network_whose_groups_are_refused_together_is_asked_in_one_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelwright.search.whole.MANY", 4)
    monkeypatch.setattr("kernelwright.search.whole.EACH", 0)
    judged: list[str] = []
    Judge.accepts = staticmethod(lambda candidate: len(judged) > 0 or bool(judged.append(candidate.code)))
    fast, said = optimized(network(), X)
    assert said == []
    assert AtenRung.asked == 2
    assert len(fast.verified.rows) == 1


@pytest.mark.parametrize("verified", [True, False])
def test_products_stay_with_aten_in_one_piece_where_our_own_are_slow_or_refused(
    verified: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No group is searched. The result is judged again at the end, since this judge's verdict lacks the candidate's digest."""
    judged: list[str] = []
    submit = Judge.submit

    def by_policy(self: Judge, task: Task, candidate: Candidate) -> Future[Verdict]:
        judged.append(task.policy)
        monkeypatch.setattr(Judge, "gain", 2.0 if task.policy == "partial" else 0.5)
        monkeypatch.setattr(Judge, "accepts", staticmethod(lambda one: verified or task.policy == "partial"))
        return submit(self, task, candidate)

    monkeypatch.setattr(Judge, "submit", by_policy)
    fast, said = optimized(network(), X, contractions="own")
    assert judged == ["full", "partial", *(["full"] if verified else []), "partial"]
    assert said == []
    assert fast.verdict.speedup("compile") >= 1.0


def test_a_size_that_the_compiler_has_one_value_for_is_no_symbol() -> None:
    def one_value(graph: Graph) -> str:
        return next((f"size: specialised: Eq({one.name}, {one.hint})" for one in graph.symbols), "")

    AtenRung.refuses = staticmethod(one_value)
    fast, said = optimized(Block(48).requires_grad_(False).eval(), torch.randn(40, 48))
    assert said == []
    assert isinstance(fast, Optimized)
    assert AtenRung.asked > 1


def test_the_compiler_is_asked_again_though_the_library_has_a_slow_kernel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class SlowLibrary(EmptyLibrary):
        def write(self, graph: Graph, sizes: Any, seconds: float) -> str:
            return written(graph) + "\nSLOW = 1\n"

    submit = Judge.submit

    def by_library(self: Judge, task: Task, candidate: Candidate) -> Future[Verdict]:
        monkeypatch.setattr(Judge, "gain", 0.5 if "SLOW" in candidate.code else 2.0)
        return submit(self, task, candidate)

    monkeypatch.setattr("kernelwright.search.rungs.LibraryRung", SlowLibrary)
    monkeypatch.setattr(Judge, "submit", by_library)
    AtenRung.refuses = staticmethod(
        lambda graph: next((f"size: specialised: Eq({one.name}, {one.hint})" for one in graph.symbols), "")
    )
    fast, said = optimized(Block(48).requires_grad_(False).eval(), torch.randn(40, 48))
    assert said == []
    assert [row.rung for row in fast.verified.rows] == ["compiler"]  # in one piece


def test_failures_are_said_with_their_reason_and_remembered(tmp_path: Path) -> None:
    AtenRung.refuses = staticmethod(lambda graph: "aten.linear has no kernel today")
    module = block()
    for _ in range(2):
        found, said = optimized(module, X, folder=tmp_path)
        assert found is module
        assert said == [
            "Block stays as it is: no kernel was verified (compiler: aten.linear has no kernel today; library: no loop nest fits)"
        ]
    asked = AtenRung.asked
    optimized(module, X, folder=tmp_path)
    assert AtenRung.asked == asked


def test_a_whole_that_is_refused_is_not_used() -> None:
    Judge.accepts = staticmethod(
        lambda candidate: "def run(" not in candidate.code or "kernel_1" not in candidate.code
    )
    module = block()
    found, said = optimized(module, X)
    assert found is module
    assert "the whole was refused (wrong value: output 0 is off)" in said[0]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UserError("the reference's own output is not finite"), "the reference's own output is not finite"),
        (InfrastructureError("no space left"), "no space left"),
        (AssertionError("a bug"), "the search raised AssertionError: a bug"),
    ],
)
def test_what_fails_after_the_capture_is_a_warning(
    error: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = Judge.submit

    def fails(self: Judge, task: Task, candidate: Candidate) -> Future[Verdict]:
        if "kernel_1" not in candidate.code:
            return submit(self, task, candidate)
        future: Future[Verdict] = Future()
        future.set_exception(error)
        return future

    monkeypatch.setattr(Judge, "submit", fails)
    AtenRung.refuses = staticmethod(lambda graph: "in groups only" if len(graph.nodes) > 4 else "")
    module = block()
    found, warned = optimized(module, X)
    assert found is module
    assert len(warned) == 1
    assert warned[0].startswith("Block stays as it is: ")
    assert said in warned[0]


def test_slower_kernels_are_not_used() -> None:
    Judge.gain = 0.5
    module = block()
    found, said = optimized(module, X)
    assert found is module
    assert "0.50 times as fast as the faster of eager and torch.compile (modelled on h200)" in said[0]


def test_the_deadline_holds() -> None:
    Judge.takes = 1.0
    began = time.monotonic()
    module = block()
    found, said = optimized(module, X, seconds=3.0)
    assert time.monotonic() - began < 3.3
    assert found is module
    assert re.search(
        r"no kernel was verified in [123] of 3 s( at a load of \d+ on \d+ cores)?, ended while", said[0]
    )
    assert re.search("while the judge tried (the kernel of compiler for Block|the whole)", said[0])


def test_hooks_of_the_module_are_not_part_of_its_kernel() -> None:
    module = block()
    module.register_forward_hook(lambda module, args, output: output + 1)
    fast, _ = optimized(module, X)
    torch.testing.assert_close(fast(X), module(X))
    assert module._forward_hooks


def test_saved_kernels_are_loaded_for_the_same_module_only(tmp_path: Path) -> None:
    fast, _ = optimized(block(), X)
    path = kernelwright.save(fast, tmp_path / "block.json")
    again: Any = kernelwright.load(path, block())
    assert again.verified == fast.verified
    torch.testing.assert_close(again(X), fast(X))
    with pytest.raises(UserError, match="found for another module than Block"):
        kernelwright.load(path, changed(block()))
    with pytest.raises(UserError, match=r"load: .* is called in another way than this one \(Block cannot be"):
        kernelwright.load(path, Block(9))
    with pytest.raises(UserError, match="cannot be read"):
        kernelwright.load(tmp_path / "none", block())
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UserError, match="is not a file of"):
        kernelwright.load(tmp_path / "text", block())
    with pytest.raises(UserError, match="runs no kernel"):
        kernelwright.save(block(), tmp_path / "x")
    wrong = Verdict(task_id="t", outcome=Outcome.WRONG_VALUE, gate=Gate.SMALL)
    (tmp_path / "bad").write_text(fast.verified.model_copy(update={"verdict": wrong}).model_dump_json())
    with pytest.raises(UserError, match="was not accepted"):
        kernelwright.load(tmp_path / "bad", block())
    for code, said in [("x", r"without a run\(\.\.\.\)"), ("def run(", "is not a file of")]:
        (tmp_path / "code").write_text(fast.verified.model_copy(update={"code": code}).model_dump_json())
        with pytest.raises(UserError, match=said):
            kernelwright.load(tmp_path / "code", block())


@pytest.mark.parametrize("x", [X.t().contiguous().t(), X.repeat(2, 2)[1:5, 1:9], X[:1].expand(4, 8)])
def test_saved_kernels_are_loaded_however_the_example_lies_in_memory(x: Tensor, tmp_path: Path) -> None:
    fast, _ = optimized(block(), x)
    again: Any = kernelwright.load(kernelwright.save(fast, tmp_path / "block.json"), block())
    assert again.verified == fast.verified
    torch.testing.assert_close(again(x), fast(x))


def changed(module: Block) -> Block:
    module.factor = 3.0
    return module


def test_an_exported_layer_runs_the_kernels_on_the_modules_own_weights(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU()).requires_grad_(False).eval()
    fast, _ = optimized(module, X)
    package = kernelwright.export(fast, tmp_path / "gelu-kernel")
    assert package == tmp_path / "gelu-kernel" / "build" / "torch-universal" / "gelu_kernel"
    assert json.loads((package.parent / "metadata.json").read_text())["name"] == "gelu-kernel"
    spec = importlib.util.spec_from_file_location("gelu_kernel", package / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = sys.modules["gelu_kernel"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    layer = loaded.layers.Sequential
    torch.testing.assert_close(layer.forward(module, X), module(X))
    with pytest.raises(ValueError, match="verified"):
        layer.forward(module, torch.randn(5, 8))
    assert set(vars(layer)) <= {"__module__", "forward", "__doc__", "has_backward", "can_torch_compile"}
    with pytest.raises(UserError, match="runs no kernel"):
        kernelwright.export(module, tmp_path / "x")


class Gelu(nn.Module):
    """A forward whose first parameter is not called self."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(this, x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(this.inner(x))


def test_kernelize_puts_the_exported_layer_into_a_model(tmp_path: Path) -> None:
    kernels = pytest.importorskip("kernels")
    cls = kernels.use_kernel_forward_from_hub("Gelu")(Gelu)
    model = nn.Sequential(cls(), cls()).requires_grad_(False).eval()
    fast, _ = optimized(model[0], X)
    kernelwright.export(fast, tmp_path / "gelu-kernel")
    wanted = model(X)
    layer = kernels.LocalLayerRepository(tmp_path / "gelu-kernel", layer_name="Gelu")
    with kernels.use_kernel_mapping({"Gelu": {"cpu": layer}}):
        made = kernels.kernelize(model, mode=kernels.Mode.INFERENCE, device="cpu", use_fallback=False)
    assert made[0].forward.__func__.__module__.endswith(".layers")
    torch.testing.assert_close(made(X), wanted)


class Says(nn.Module):
    """A module whose forward is a given function."""

    def __init__(self, do: Callable[..., Any]) -> None:
        super().__init__()
        self.do = do

    def forward(self, *args: Any) -> Any:
        return self.do(*args)


@torch.library.custom_op("kernelwright_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    """The kind of operator that an extension adds."""
    return x * 2


twice.register_fake(lambda x: torch.empty_like(x))


async def waits(x: Tensor) -> Tensor:
    return x * 2


def hooked() -> nn.Module:
    module = block()
    module.proj.register_forward_hook(lambda m, a, y: y)
    return module


class Renormed(nn.Module):
    """Writes to its own weight at each call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        self.weight.mul_(0.5)
        return x * self.weight


BAD: dict[str, tuple[Callable[[], nn.Module], Callable[[], Any], str]] = {
    "a state_dict": (lambda: block().state_dict(), lambda: (X,), "OrderedDict is neither a module nor a function"),
    "no module": (lambda: "text", lambda: (X,), "'text' is neither a module nor a function"),  # type: ignore[dict-item,return-value]
    "a class": (lambda: Block, lambda: (X,), "Block is a class; make an instance of it"),  # type: ignore[dict-item,return-value]
    "a method": (lambda: block().forward, lambda: (X,), "forward is a method; pass the module itself"),  # type: ignore[dict-item,return-value]
    "no tensor": (lambda: Says(lambda: 1), lambda: (), "no tensor among the example inputs|has no tensor"),
    "branches on data": (
        lambda: Says(lambda x: x if x.sum() > 0 else -x), lambda: (X,), "depend on the values of tensors",
    ),
    "shapes from data": (lambda: Says(lambda x: x[x > 0]), lambda: (X,), "cannot be captured"),
    "forward raises": (lambda: Says(lambda x: x @ x), lambda: (X,), "cannot be captured"),
    "too few arguments": (block, lambda: (), "cannot be captured"),
    "complex": (lambda: Says(lambda x: x * 2), lambda: (X.to(torch.complex64),), "it returns a complex tensor"),
    "sparse": (lambda: Says(lambda x: x * 2), lambda: (X.to_sparse(),), "is sparse"),
    "quantised dtype": (lambda: Says(lambda x: x), lambda: (X.to(torch.float8_e4m3fn),), "is float8_e4m3fn"),
    "meta device": (lambda: Says(lambda x: x * 2), lambda: (X.to("meta"),), "meta device"),
    "lazy weights": (lambda: nn.LazyLinear(8), lambda: (X,), "has no shape yet"),
    "statistics in training": (lambda: nn.BatchNorm1d(8), lambda: (X,), "updates .* in training"),
    "a weight written": (lambda: Renormed().eval(), lambda: (X,), "updates weight in place; make it a buffer"),
    "a number from data": (lambda: Says(lambda x: x * x.max().item()), lambda: (X,), "a number depends on the data"),
    "a size from data": (lambda: Says(lambda x: x[x > 0] * 2), lambda: (X,), r"a size depends on the data \(an index of booleans\)"),
    "lazy weights inside": (lambda: nn.Sequential(nn.LazyLinear(8)), lambda: (X,), "has no shape yet"),
    "an object": (lambda: Says(lambda x, y: x * y.scale), lambda: (X, SimpleNamespace(scale=2)), "pass tensors and numbers"),
    "no elements": (lambda: nn.Linear(8, 8), lambda: (torch.randn(0, 8),), "returns no elements for these inputs"),
    "nothing computed": (lambda: Says(lambda x: x), lambda: (X,), "computes nothing"),
    "another dtype": (
        lambda: nn.Linear(8, 8), lambda: (X.bfloat16(),), "the module itself raises RuntimeError: mat1 and mat2 must have",
    ),
    "an index beyond its table": (
        lambda: nn.Embedding(10, 8), lambda: (torch.tensor([[1, 99]]),), "the module itself raises IndexError",
    ),
    "random numbers": (lambda: nn.Sequential(nn.Linear(8, 8), nn.Dropout()), lambda: (X,), "draws random numbers"),
    "scripted": (lambda: torch.jit.script(nn.Linear(8, 8)), lambda: (X,), "TorchScript"),
    "optimized already": (lambda: made(block(), X), lambda: (X,), "optimized already"),
    "hooks inside": (hooked, lambda: (X,), "proj has hooks"),
    "a coroutine": (lambda: Says(waits), lambda: (X,), "is a tensor, the module's <coroutine object"),
    "foreign operator": (lambda: Says(twice), lambda: (X,), "is not torch's own"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=list(BAD))
def test_bad_modules_get_one_line(case: str) -> None:
    module, inputs, said = BAD[case]
    with pytest.raises(UserError, match=said) as told:
        optimized(module(), *inputs())
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 400


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target": "abacus"}, "abacus"),
        ({"contractions": "none"}, "choose own or auto"),
        ({"seconds": 0}, "give a budget above 0"),
        ({"seconds": "60"}, "give a budget above 0"),
        ({"seconds": float("nan")}, "give a budget above 0"),
        ({"target": 90}, "target is 90; give a word"),
        ({"workers": -1}, "workers is -1; give how many"),
        ({"rungs": "compiler,oracle"}, "unknown rung 'oracle'"),
        ({"folder": 5}, "cache is 5; give a folder"),
        ({"folder": __file__}, "a file; give a folder"),
        ({"dynamic": "yes"}, "dynamic is 'yes'; give True or False"),
        ({"kwargs": [1]}, "kwargs is a list; give a dict"),
    ],
)
def test_bad_options_get_one_line(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        optimized(block(), X, **options)


def test_autocast_gets_one_line() -> None:
    with torch.autocast("cpu"), pytest.raises(UserError, match="autocast is on"):
        optimized(block(), X)


def test_out_of_memory_gets_one_line() -> None:
    def fails(x: Tensor) -> Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB")

    with pytest.raises(UserError, match="out of memory") as told:
        optimized(Says(fails), X)
    assert "\n" not in str(told.value)
