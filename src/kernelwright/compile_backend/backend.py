"""The Dynamo backend: Inductor with a pass that inserts verified kernels, graph by graph, forward and backward.

Options, besides Inductor's own:

        search        seconds to search for kernels while compiling, and to race Inductor's own settings; 0: only known kernels
        contractions  "auto" (default: products may stay with cuBLAS) or "own"
        replace       "faster" (default): use kernels that beat torch.compile by their verdict; "always": use every kernel, for
                      tests
        race          False skips the final timing
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
import torch._functorch.config
from torch import fx

from kernelwright.compile_backend.compiling import Compiling, race_changes
from kernelwright.compile_backend.gradients import apart, together
from kernelwright.compile_backend.grouping import Option
from kernelwright.compile_backend.operators import operator_for
from kernelwright.compile_backend.race import Race
from kernelwright.compile_backend.splice import Spliced, groups_of, splice
from kernelwright.errors import InfrastructureError, UserError, did_you_mean
from kernelwright.graph import Graph
from kernelwright.graph.partition import Group
from kernelwright.graph.types import NumberType
from kernelwright.records import FASTER, Verdict
from kernelwright.search.cache import Answer, Entry
from kernelwright.search.ladder import Contractions

logger = logging.getLogger(__name__)
_FASTER: Mapping[str, float] = {"compiler": 1.05}
"""By rung, if not 1.0: how many times faster than Inductor a kernel must be. The compiler rung's kernels are Inductor's own, cut
off from what it would fuse around them; a few per cent are noise."""
_TRYING_S = 20.0
"""Seconds for compilations with only some of the kernels; the search's seconds if those are more."""
OPTIONS: Mapping[str, Any] = {"search": 0.0, "contractions": "auto", "replace": "faster", "race": True}


class KernelSource(Protocol):
    """Where kernels come from; implemented by the ladder."""

    def lookup(self, graph: Graph, contractions: Contractions) -> Entry | None:
        """The known kernels of a graph."""

    def search(self, graphs: Sequence[Graph], contractions: Contractions, seconds: float) -> None:
        """Spend up to `seconds` on finding more kernels."""


@dataclass(frozen=True)
class Choice:
    """Whether a group got one of our kernels, and why."""

    operators: str
    """`linear+gelu`"""
    replaced: bool
    """False also if another cut of the same nodes saves more."""
    why: str
    """In one line: the kernel's origin and comparison, or the result of each rung."""


@dataclass
class Report:
    """Results of the last compilation, graph by graph."""

    graphs: list[Spliced] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    """One per group of any cut, in the order in which graphs were compiled."""
    races: list[Race] = field(default_factory=list)
    kept: int = 0
    """Number of graphs that use our kernels in the end."""
    settings: list[dict[str, Any]] = field(default_factory=list)
    """Of each graph that was searched for: settings of Inductor that won, empty if its own did."""

    @property
    def replaced(self) -> list[str]:
        """Operators of the replaced groups: `linear+gelu`."""
        return [group.operators for one in self.graphs for group, _ in one.replaced]


_REPORT = Report()
_SOURCE: KernelSource | None = None


def last_report() -> Report:
    """The report on all compilations since `use_source`, or since the process began."""
    return _REPORT


def use_source(source: KernelSource | None) -> None:
    """Take kernels from `source`; None: from the ladder over the user's own cache. Starts a new report."""
    global _SOURCE, _REPORT
    _SOURCE, _REPORT = source, Report()


def kernelwright_backend(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a Dynamo graph. Raises UserError for an unknown option, or an invalid value of one of ours."""
    from torch._inductor import list_mode_options
    from torch._inductor.compile_fx import compile_fx

    ours, inductors = _split(options or {})
    patches = {**(list_mode_options(mode) if mode else {}), **inductors}
    inner = functools.partial(_compile_inner, ours=ours)
    # AOTAutograd's cache may have the graph from Inductor alone, and then would never call us.
    with torch._functorch.config.patch(enable_autograd_cache=False):
        compiled: Any = compile_fx(module, list(example_inputs), inner_compile=inner, config_patches=patches)
    assert callable(compiled)
    return compiled


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    from torch._inductor import list_options

    ours = {**OPTIONS, **{name: value for name, value in options.items() if name in OPTIONS}}
    if ours["contractions"] not in ("own", "auto"):
        raise UserError(f"options: contractions={ours['contractions']!r}; valid: own, auto")
    if ours["replace"] not in ("faster", "always"):
        raise UserError(f"options: replace={ours['replace']!r}; valid: faster, always")
    if not isinstance(ours["search"], int | float) or ours["search"] < 0:
        raise UserError(f"options: search={ours['search']!r}; give seconds, 0 for none")
    inductors = {name: value for name, value in options.items() if name not in OPTIONS}
    known = {*OPTIONS, *list_options()} if inductors else set()
    if wrong := [name for name in inductors if name not in known]:
        raise UserError(
            f"options: {wrong[0]!r} is neither ours nor Inductor's{did_you_mean(wrong[0], known)}"
        )
    return ours, inductors


def _compile_inner(
    module: fx.GraphModule, example_inputs: Sequence[Any], *, ours: Mapping[str, Any], **options: Any
) -> Any:
    """Compile one ATen graph with our kernels and without, and take the fastest."""
    from torch._inductor.compile_fx import compile_fx_inner

    if ours["replace"] == "faster" and not _on_gpu(example_inputs):
        return compile_fx_inner(module, example_inputs, **options)
    source = _SOURCE if _SOURCE is not None else _ladder()
    clocked = ours["race"] and _on_gpu(example_inputs) and not options.get("cudagraphs")
    compiling = Compiling(module, example_inputs, options)
    change, seconds = functools.partial(_Pass, source, ours), max(_TRYING_S, ours["search"])
    if clocked and ours["search"]:
        _REPORT.races += compiling.settle(example_inputs, time.monotonic() + seconds)
        _REPORT.settings.append(compiling.settings)
    best, first, races = race_changes(compiling, change, example_inputs if clocked else None, seconds)
    _REPORT.races += races
    if first is not None:
        _REPORT.graphs.append(best.spliced if best else Spliced(first.groups, left=first.left))
    _REPORT.kept += best is not None
    return compiling.chosen(best or compiling.plain())


class _Pass:
    """The pass that Inductor runs on a graph before its own passes."""

    def __init__(
        self, source: KernelSource, ours: Mapping[str, Any], allowed: frozenset[str] | None = None
    ) -> None:
        self._source, self._ours, self._allowed = source, ours, allowed
        self._first = allowed is None
        """Whether this is the first pass: later ones do not search, and add nothing to the report."""
        self.done: Spliced | None = None
        self.saves: dict[str, float] = {}
        """Digest of a group with a kernel -> milliseconds that the kernel saves on its own."""
        self._why: dict[Group, str] = {}

    def uuid(self) -> None:
        """None disables caching of the result, since kernels may be found between processes."""

    def __call__(self, graph: fx.Graph) -> None:
        parts = apart(graph)
        try:
            if self._ours["search"] and self._first:
                self._source.search(
                    [one.graph for one in groups_of(graph)], self._ours["contractions"], self._ours["search"]
                )
        except (UserError, InfrastructureError) as error:
            logger.warning("kernelwright: no kernels were searched for: %s", error)
        except Exception as error:  # a failed search must not fail the model
            logger.warning("kernelwright: the search failed: %s: %s", type(error).__name__, error)
        self.done = splice(graph, self._choose)
        together(graph, parts)
        if self._first:
            replaced = {group for group, _ in self.done.replaced}
            _REPORT.choices += [
                Choice(one.operators, one in replaced, self._why[one]) for one in self.done.groups
            ]

    def _choose(self, group: Group) -> Option | None:
        """The group's kernel as an operator, or None."""
        option, self._why[group] = self._option(group)
        if option is not None:
            digest = group.graph.digest
            self.saves[digest] = self.saves.get(digest, 0.0) + option.saves
        return option

    def _option(self, group: Group) -> tuple[Option | None, str]:
        """The same, with the reason."""
        if any(isinstance(one.type, NumberType) for one in group.graph.arguments):
            return None, "a size that none of its tensors tells"
        known = self._source.lookup(group.graph, self._ours["contractions"])
        if known is None:
            return None, "not searched for: give search seconds in the options, or more of them"
        if known.best is None:
            return None, "; ".join(f"{rung}: {what}" for rung, what in known.tried.items())
        why = _compare(known.best)
        least = _FASTER.get(known.best.rung, 1.0)
        if not (self._ours["replace"] == "always" or beats_inductor(known.best.verdict, least)):
            return None, why
        if self._allowed is not None and group.graph.digest not in self._allowed:
            return None, why
        try:
            operator = operator_for(group.graph, known.best.code, known.best.verdict)
            return Option(operator, _saved_ms(known.best.verdict)), why
        except (ValueError, KeyError, SyntaxError, ImportError) as error:
            logger.warning("kernelwright: a kernel for %s cannot be loaded: %s", group.operators, error)
            return None, f"cannot be loaded: {type(error).__name__}"


def _compare(answer: Answer) -> str:
    """A kernel's origin, and its time against the faster of eager and torch.compile: `compiler: 0.120 ms, 1.08x`."""
    timing = answer.verdict.timing
    if timing is None:
        return f"{answer.rung}: not timed"
    low, high = timing.speedup_ci[timing.faster_baseline]
    clock = "" if timing.kind == "measured" else f" {timing.kind}"
    return f"{answer.rung}: {timing.candidate_ms:.4f} ms{clock}, {timing.speedup(FASTER):.2f}x ({low:.2f} to {high:.2f})"


def _saved_ms(verdict: Verdict) -> float:
    timing = verdict.timing
    return 0.0 if timing is None else timing.baseline_ms[timing.faster_baseline] - timing.candidate_ms


def beats_inductor(verdict: Verdict, least: float = 1.0) -> bool:
    """Whether the whole interval of the measured speedup over the faster of eager and torch.compile is above `least`."""
    timing = verdict.timing
    if timing is None or timing.kind != "measured":
        return False
    return timing.speedup(FASTER) > least and timing.speedup_ci[timing.faster_baseline][0] > least


def _on_gpu(example_inputs: Sequence[Any]) -> bool:
    return any(isinstance(one, torch.Tensor) and one.device.type == "cuda" for one in example_inputs)


@functools.cache
def _ladder() -> KernelSource:
    """The ladder over the user's own cache."""
    from kernelwright.compile_backend.source import LadderSource

    return LadderSource()
