"""The Dynamo backend: Inductor with a pass that puts verified kernels in, graph by graph, forward and backward.

Options, beside Inductor's own:

    search        seconds to search for kernels while compiling; 0: only what is known
    contractions  "auto" (default: products may stay with cuBLAS) or "own"
    replace       "faster" (default): where the verdict says that a kernel beats torch.compile; "always": wherever there is
                  one, for tests
    race          False leaves out the clock at the end
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping, Sequence
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
_FASTER: Mapping[str, float] = {"compiler": 1.05}
"""By rung, if not 1.0: how many times faster than Inductor a kernel has to be. The compiler's are Inductor's own, cut off from what
it would fuse around them; a few per cent are noise."""
_TRIES = 4
"""Compilations with kernels of ours: with all that are faster alone, then with the half that saves most, and so on, for each
breaks what Inductor would fuse around it."""
_AS_FORETOLD = 0.8
"""Of the time that the kernels save one by one: a whole that saves so much is not tried again with fewer."""
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
    """One ATen graph: with our kernels, without them, and the fastest of these."""
    from torch._inductor.compile_fx import compile_fx_inner

    if ours["replace"] == "faster" and not _on_gpu(example_inputs):
        return compile_fx_inner(module, example_inputs, **options)
    source = _SOURCE if _SOURCE is not None else _ladder()
    clocked = ours["race"] and _on_gpu(example_inputs) and not options.get("cudagraphs")
    compiling = _Compiling(module, example_inputs, options)
    best, first = _raced(compiling, source, ours, example_inputs if clocked else None)
    if first is not None:
        _REPORT.graphs.append(best.spliced if best else Spliced(first.groups, [], first.left))
    _REPORT.kept += best is not None
    return compiling.chosen(best or compiling.plain())


def _raced(
    compiling: _Compiling, source: KernelSource, ours: Mapping[str, Any], examples: Sequence[Any] | None
) -> tuple[_Compiled | None, Spliced | None]:
    """The fastest compilation with kernels of ours, if any is faster than Inductor's alone, and what the first try did. Without
    `examples` nothing is clocked: the first try it is."""
    best: _Compiled | None = None
    first: Spliced | None = None
    saves: dict[str, float] = {}
    allowed: list[str] | None = None
    for _ in range(_TRIES if examples is not None else 1):
        change = _Pass(source, ours, None if allowed is None else frozenset(allowed))
        stitched = compiling.run(change)
        if change.done is None:
            break
        first = first or change.done
        saves = saves or change.saves
        if stitched is not None and not change.done.replaced:
            compiling.take_as_plain(stitched)
            break
        if examples is None:
            best = stitched
        elif stitched is not None:
            won = race(stitched.call, (best or compiling.plain()).call, examples)
            if won is not None:
                _REPORT.races.append(won)
                best = stitched if won.won else best
                if won.inductor_ms - won.ours_ms > _AS_FORETOLD * sum(saves.values()):
                    break
        kept = sorted(allowed or saves, key=lambda digest: saves.get(digest, 0.0), reverse=True)
        allowed = kept[: len(kept) // 2]
        if not allowed:
            break
    return best, first


@dataclass(frozen=True)
class _Compiled:
    """A compiled graph, with the strides of its outputs as AOTAutograd reads them from the tracing context."""

    call: Any
    strides: list[Any]
    spliced: Spliced


class _Compiling:
    """Compilations of one graph by Inductor, which takes each for the first and asserts that no strides are noted yet."""

    def __init__(
        self, module: fx.GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        self._module, self._inputs, self._options = module, example_inputs, options
        context = torch._guards.TracingContext.try_get()
        self._noted: list[Any] | None = context.output_strides if context is not None else None
        self._plain: _Compiled | None = None

    def run(self, change: _Pass) -> _Compiled | None:
        """With our kernels; None, and said aloud, where they keep the graph from compiling."""
        from torch._inductor import config

        try:
            with config.patch(post_grad_custom_pre_pass=change):
                return self._compile(change)
        except Exception as error:  # what our kernels did to the graph must never keep a model from running
            if change.done is None or not change.done.replaced:
                raise
            logger.warning("kernelwright: the graph stays Inductor's: %s: %s", type(error).__name__, error)
            return None

    def plain(self) -> _Compiled:
        """Without them, once."""
        if self._plain is None:
            self._plain = self._compile(None)
        return self._plain

    def take_as_plain(self, one: _Compiled) -> None:
        """What holds no kernel of ours is Inductor's own: nothing is compiled again."""
        self._plain = self._plain or one

    def chosen(self, one: _Compiled) -> Any:
        """The compiled graph, whose strides are left for AOTAutograd."""
        if self._noted is not None:
            self._noted[:] = one.strides
        return one.call

    def _compile(self, change: _Pass | None) -> _Compiled:
        from torch._inductor.compile_fx import compile_fx_inner

        if self._noted is not None:
            self._noted.clear()
        call = compile_fx_inner(_copied(self._module), self._inputs, **self._options)
        done = change.done if change is not None and change.done is not None else Spliced()
        return _Compiled(call, list(self._noted or ()), done)


class _Pass:
    """What Inductor calls on a graph before its own passes."""

    def __init__(
        self, source: KernelSource, ours: Mapping[str, Any], allowed: frozenset[str] | None = None
    ) -> None:
        self._source, self._ours, self._allowed = source, ours, allowed
        self._first = allowed is None
        """A second try searches for nothing and says nothing new."""
        self.done: Spliced | None = None
        self.saves: dict[str, float] = {}
        """By digest of a group that was replaced: milliseconds by which its kernel is the faster one, alone."""

    def uuid(self) -> None:
        """No caching of what it makes: kernels are found between one process and the next."""

    def __call__(self, graph: fx.Graph) -> None:
        try:
            if self._ours["search"] and self._first:
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
        if self._first:
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
        least = _FASTER.get(known.best.rung, 1.0)
        if not (self._ours["replace"] == "always" or beats_inductor(known.best.verdict, least)):
            return None, why
        digest = group.graph.digest
        if self._allowed is not None and digest not in self._allowed:
            return None, why
        try:
            operator = operator_for(group.graph, known.best.code, known.best.verdict)
            self.saves[digest] = self.saves.get(digest, 0.0) + _saved_ms(known.best.verdict)
            return operator, why
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


def _saved_ms(verdict: Verdict) -> float:
    timing = verdict.timing
    return 0.0 if timing is None else min(timing.baseline_ms.values()) - timing.candidate_ms


def beats_inductor(verdict: Verdict, least: float = 1.0) -> bool:
    """Whether all of the interval lies above `least` times the faster of eager and torch.compile, on a clock."""
    timing = verdict.timing
    if timing is None or timing.kind != "measured":
        return False
    baseline = min(timing.baseline_ms, key=lambda name: timing.baseline_ms[name])
    return timing.speedup(FASTER) > least and timing.speedup_ci[baseline][0] > least


def _on_gpu(example_inputs: Sequence[Any]) -> bool:
    return any(isinstance(one, torch.Tensor) and one.device.type == "cuda" for one in example_inputs)


def _copied(module: fx.GraphModule) -> fx.GraphModule:
    """The module with a graph of its own; parameters and metadata are shared."""
    graph = fx.Graph()
    names: dict[fx.Node, fx.Node] = {}
    node = graph.output(graph.graph_copy(module.graph, names))
    node.meta = dict(next(one for one in reversed(module.graph.nodes) if one.op == "output").meta)
    for old, new in names.items():
        new.meta = dict(old.meta)
    copied = fx.GraphModule(module, graph)
    copied.meta = dict(module.meta)
    return copied


@functools.cache
def _ladder() -> KernelSource:
    """The ladder over the user's own cache."""
    from kernelwright.compile_backend.source import LadderSource

    return LadderSource()
