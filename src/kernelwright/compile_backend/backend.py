"""The Dynamo backend: Inductor with a pass that puts verified kernels in, graph by graph, forward and backward.

Options, beside Inductor's own:

    search        seconds to search for kernels while compiling; 0: only what is known
    contractions  "auto" (default: products may stay with cuBLAS) or "own"
    replace       "faster" (default): where the verdict says that a kernel beats torch.compile; "always": wherever there is
                  one, for tests
    race          False leaves out the clock at the end
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch._functorch.config
from torch import fx

from kernelwright.compile_backend.operators import operator_for
from kernelwright.compile_backend.race import Race, race
from kernelwright.compile_backend.splice import Spliced, groups_of, splice
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.graph import Graph
from kernelwright.graph.partition import Group
from kernelwright.graph.types import NumberType
from kernelwright.records import FASTER, Verdict
from kernelwright.search.cache import Answer, Entry
from kernelwright.search.ladder import Contractions

logger = logging.getLogger(__name__)
OPTIONS: Mapping[str, Any] = {"search": 0.0, "contractions": "auto", "replace": "faster", "race": True}


class KernelSource(Protocol):
    """Where kernels come from: the ladder."""

    def lookup(self, graph: Graph, contractions: Contractions) -> Entry | None:
        """What is known of a graph, in milliseconds."""

    def search(self, graphs: Sequence[Graph], contractions: Contractions, seconds: float) -> None:
        """Spend up to `seconds` on finding more."""


@dataclass(frozen=True)
class Choice:
    """Whether a group got a kernel of ours, and why."""

    operators: str
    """`linear+gelu`"""
    taken: bool
    why: str
    """In one line: who wrote the kernel and how it compares, or what became of each rung."""


@dataclass
class Report:
    """What the last compilation did, graph by graph."""

    graphs: list[Spliced] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    """One a group, in the order in which graphs were compiled."""
    races: list[Race] = field(default_factory=list)
    kept: int = 0
    """Graphs that hold kernels of ours in the end."""

    @property
    def replaced(self) -> list[str]:
        """Operators of the groups that were replaced: `linear+gelu`."""
        return [group.operators for one in self.graphs for group, _ in one.replaced]


_REPORT = Report()
_SOURCE: KernelSource | None = None


def last_report() -> Report:
    """Of the compilations since `use_source` or the process began."""
    return _REPORT


def use_source(source: KernelSource | None) -> None:
    """Take kernels from there; None: from the ladder over the user's own cache. Begins a new report."""
    global _SOURCE, _REPORT
    _SOURCE, _REPORT = source, Report()


def kernelwright_backend(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph. Raises UserError for an option of ours with a value that it cannot have."""
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    ours, inductors = _split(options or {})
    patches = {**(list_mode_options(mode) if mode else {}), **inductors}
    inner = functools.partial(_compile_inner, ours=ours)
    # A graph that AOTAutograd remembers from Inductor alone would never reach us.
    with torch._functorch.config.patch(enable_autograd_cache=False):
        compiled: Any = compile_fx(module, list(example_inputs), inner_compile=inner, config_patches=patches)
    assert callable(compiled)
    return compiled


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    ours = {**OPTIONS, **{name: value for name, value in options.items() if name in OPTIONS}}
    if ours["contractions"] not in ("own", "auto"):
        raise UserError(f"options: contractions={ours['contractions']!r}; valid: own, auto")
    if ours["replace"] not in ("faster", "always"):
        raise UserError(f"options: replace={ours['replace']!r}; valid: faster, always")
    if not isinstance(ours["search"], int | float) or ours["search"] < 0:
        raise UserError(f"options: search={ours['search']!r}; give seconds, 0 for none")
    return ours, {name: value for name, value in options.items() if name not in OPTIONS}


def _compile_inner(
    module: fx.GraphModule, example_inputs: Sequence[Any], *, ours: Mapping[str, Any], **options: Any
) -> Any:
    """One ATen graph: with our kernels, without them, and the faster of the two."""
    from torch._inductor import config
    from torch._inductor.compile_fx import compile_fx_inner

    source = _SOURCE if _SOURCE is not None else _ladder()
    if ours["replace"] == "faster" and not _on_gpu(example_inputs):
        return compile_fx_inner(module, example_inputs, **options)
    change = _Pass(source, ours)
    untouched = _copied(module)
    try:
        with config.patch(post_grad_custom_pre_pass=change):
            stitched = compile_fx_inner(module, example_inputs, **options)
    except Exception as error:  # what our kernels did to the graph must never keep a model from running
        if change.done is None or not change.done.replaced:
            raise
        logger.warning("kernelwright: the graph stays Inductor's: %s: %s", type(error).__name__, error)
        with _first_compilation():
            return compile_fx_inner(untouched, example_inputs, **options)
    if change.done is not None:
        _REPORT.graphs.append(change.done)
    if change.done is None or not change.done.replaced:
        return stitched
    if ours["race"] and _on_gpu(example_inputs) and not options.get("cudagraphs"):
        with _first_compilation() as of_stitched:
            plain = compile_fx_inner(untouched, example_inputs, **options)
            clocked = race(stitched, plain, example_inputs)
            if clocked is not None:
                _REPORT.races.append(clocked)
            if clocked is None or not clocked.won:
                return plain
            of_stitched.restore()
    _REPORT.kept += 1
    return stitched


class _Strides:
    """Of the outputs of a graph, as AOTAutograd reads them from the tracing context after the compilation."""

    def __init__(self, noted: list[Any] | None) -> None:
        self._noted, self._first = noted, list(noted or ())

    def restore(self) -> None:
        if self._noted is not None:
            self._noted[:] = self._first


@contextlib.contextmanager
def _first_compilation() -> Iterator[_Strides]:
    """Another compilation of a graph that was compiled before: Inductor takes each for the first, and asserts that no strides
    of outputs are noted yet."""
    context = torch._guards.TracingContext.try_get()
    strides = _Strides(context.output_strides if context is not None else None)
    if context is not None and context.output_strides:
        context.output_strides.clear()
    yield strides


class _Pass:
    """What Inductor calls on a graph before its own passes."""

    def __init__(self, source: KernelSource, ours: Mapping[str, Any]) -> None:
        self._source, self._ours = source, ours
        self.done: Spliced | None = None

    def uuid(self) -> None:
        """No caching of what it makes: kernels are found between one process and the next."""

    def __call__(self, graph: fx.Graph) -> None:
        try:
            if self._ours["search"]:
                self._source.search(
                    [one.graph for one in groups_of(graph)], self._ours["contractions"], self._ours["search"]
                )
        except (UserError, InfrastructureError) as error:
            logger.warning("kernelwright: no kernels were searched for: %s", error)
        except Exception as error:  # a fault of the search's is no fault of the model's
            logger.warning("kernelwright: the search failed: %s: %s", type(error).__name__, error)
        self.done = splice(graph, self._choose)

    def _choose(self, group: Group) -> torch._ops.OpOverload | None:
        operator, why = self._operator(group)
        _REPORT.choices.append(Choice(group.operators, operator is not None, why))
        return operator

    def _operator(self, group: Group) -> tuple[torch._ops.OpOverload | None, str]:
        """The group's kernel as an operator, or none, and why."""
        if any(isinstance(one.type, NumberType) for one in group.graph.arguments):
            return None, "a size that none of its tensors tells"
        known = self._source.lookup(group.graph, self._ours["contractions"])
        if known is None:
            return None, "not searched for: give search seconds in the options, or more of them"
        if known.best is None:
            return None, "; ".join(f"{rung}: {what}" for rung, what in known.tried.items())
        why = _compared(known.best)
        if not (self._ours["replace"] == "always" or beats_inductor(known.best.verdict)):
            return None, why
        try:
            return operator_for(group.graph, known.best.code, known.best.verdict), why
        except (ValueError, KeyError, SyntaxError, ImportError) as error:
            logger.warning("kernelwright: a kernel for %s cannot be loaded: %s", group.operators, error)
            return None, f"cannot be loaded: {type(error).__name__}"


def _compared(answer: Answer) -> str:
    """Who wrote a kernel, and its time beside the faster of eager and torch.compile: `compiler: 0.120 ms, 1.08x`."""
    timing = answer.verdict.timing
    if timing is None:
        return f"{answer.rung}: not timed"
    low, high = timing.speedup_ci[min(timing.baseline_ms, key=lambda name: timing.baseline_ms[name])]
    clock = "" if timing.kind == "measured" else f" {timing.kind}"
    return f"{answer.rung}: {timing.candidate_ms:.4f} ms{clock}, {timing.speedup(FASTER):.2f}x ({low:.2f} to {high:.2f})"


def beats_inductor(verdict: Verdict) -> bool:
    """Whether all of the interval lies above the faster of eager and torch.compile, on a clock."""
    timing = verdict.timing
    if timing is None or timing.kind != "measured":
        return False
    baseline = min(timing.baseline_ms, key=lambda name: timing.baseline_ms[name])
    return timing.speedup(FASTER) > 1.0 and timing.speedup_ci[baseline][0] > 1.0


def _on_gpu(example_inputs: Sequence[Any]) -> bool:
    return any(isinstance(one, torch.Tensor) and one.device.type == "cuda" for one in example_inputs)


def _copied(module: fx.GraphModule) -> fx.GraphModule:
    """The module with a graph of its own; parameters and metadata are shared."""
    copied = fx.GraphModule(module, fx.Graph())
    names: dict[fx.Node, fx.Node] = {}
    output = copied.graph.graph_copy(module.graph, names)
    node = copied.graph.output(output)
    original = next(one for one in reversed(module.graph.nodes) if one.op == "output")
    node.meta = dict(original.meta)
    for old, new in names.items():
        new.meta = dict(old.meta)
    copied.meta = dict(module.meta)
    copied.recompile()
    return copied


@functools.cache
def _ladder() -> KernelSource:
    """The ladder over the user's own cache."""
    from kernelwright.compile_backend.source import LadderSource

    return LadderSource()
