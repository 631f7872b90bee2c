"""Compiles one graph with Inductor, with and without our kernels, and picks the fastest.

The kernels that save most on their own are inserted first, each region in its best cut. If all together save less than the sum,
because Inductor can no longer fuse across group borders, kernels are added again one at a time and kept if the whole gets faster.
Kernels of other cuts are tried then, too, unless a kernel with one of the same nodes was kept.

Inductor itself runs under a few settings first (`SETTINGS`), and all the rest under the fastest: what it decides without a clock is
wrong by up to a half for training steps of convolutions.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import fx

from kernelwright.compile_backend.race import Race, race
from kernelwright.compile_backend.splice import Spliced
from kernelwright.errors import one_line

logger = logging.getLogger(__name__)
SETTINGS: tuple[Mapping[str, Any], ...] = ({"layout_optimization": False}, {"max_autotune_pointwise": True})
"""Settings of Inductor that are raced, each on top of those that won before: images as they come instead of channels-last, for graphs
with convolutions; and several configurations of every reduction and elementwise kernel instead of one."""
_AS_FORETOLD = 0.8
"""If all kernels together save this share of the sum of what each saves, the result is accepted."""


class Change(Protocol):
    """A pass that Inductor runs on a graph before its own passes."""

    done: Spliced | None
    """What was done to the graph; None before the pass."""
    saves: dict[str, float]
    """Digest of a group with a kernel, replaced or not -> milliseconds that the kernel saves on its own."""

    def __call__(self, graph: fx.Graph) -> None: ...


def race_changes(
    compiling: Compiling,
    change: Callable[[frozenset[str] | None], Change],
    examples: Sequence[Any] | None,
    seconds: float,
) -> tuple[Compiled | None, Spliced | None, list[Race]]:
    """(the fastest compilation with our kernels, if any beats Inductor alone; what the first attempt did; all timings).
    `change` makes a pass for all kernels, or for those of some digests. Without `examples` nothing is timed, and the first
    attempt is returned. `seconds`: time for attempts with some of the kernels, if all together save too little."""
    races: list[Race] = []
    first = change(None)
    whole = compiling.run(first)
    if first.done is None or not first.done.replaced:
        if whole is not None and first.done is not None:
            compiling.take_as_plain(whole)
        return None, first.done, races
    if examples is None:
        return whole, first.done, races
    won = None if whole is None else _clock(whole, compiling.plain(), examples, races)
    if whole is not None and won is None:  # no memory for timing
        return None, first.done, races
    best = whole if won is not None and won.won else None
    saved = 0.0 if won is None else won.inductor_ms - won.ours_ms
    if best is None or saved < _AS_FORETOLD * first.done.saves:
        order = sorted(first.saves, key=lambda digest: first.saves[digest], reverse=True)
        some = _one_by_one(compiling, change, examples, order, first.done, time.monotonic() + seconds, races)
        if some is not None and best is not None:
            against = _clock(some, best, examples, races)
            best = some if against is not None and against.won else best
        else:
            best = best or some
    return best, first.done, races


def _one_by_one(
    compiling: Compiling,
    change: Callable[[frozenset[str] | None], Change],
    examples: Sequence[Any],
    order: Sequence[str],
    done: Spliced,
    until: float,
    races: list[Race],
) -> Compiled | None:
    """Add kernels in `order` of their digests, keeping each that makes the whole faster, since each breaks fusions of Inductor.
    Skips rivals of kept kernels, and the set that was `done` first."""
    best: Compiled | None = None
    kept: list[str] = []
    known = {group.graph.digest for group, _ in done.replaced}
    for digest in order if len(order) > 1 else ():
        if time.monotonic() > until:
            break
        if done.rivals.get(digest, set()) & set(kept) or {*kept, digest} == known:
            continue
        tried = compiling.run(change(frozenset([*kept, digest])))
        won = None if tried is None else _clock(tried, best or compiling.plain(), examples, races)
        if won is not None and won.won:
            best = tried
            kept.append(digest)
    return best


def _clock(one: Compiled, other: Compiled, examples: Sequence[Any], races: list[Race]) -> Race | None:
    won = race(one.call, other.call, examples)
    if won is not None:
        races.append(won)
    return won


@dataclass(frozen=True)
class Compiled:
    """A compiled graph, and the strides of its outputs, which AOTAutograd reads from the tracing context."""

    call: Any
    strides: list[Any]
    spliced: Spliced


class Compiling:
    """Compiles one graph several times, resetting the output strides that Inductor expects to be unset."""

    def __init__(
        self, module: fx.GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        self._module, self._inputs, self._options = module, example_inputs, options
        context = torch._guards.TracingContext.try_get()
        self._noted: list[Any] | None = context.output_strides if context is not None else None
        self._plain: Compiled | None = None
        self.settings: dict[str, Any] = {}
        """Inductor's settings for all compilations from here on."""

    def settle(self, examples: Sequence[Any], until: float) -> list[Race]:
        """Race Inductor alone under each of `SETTINGS` while `until` (of `time.monotonic`) has not passed, and keep those that win;
        a setting that is so already, or with which compilation fails, is passed over. Returns the timings."""
        from torch._inductor import config

        races: list[Race] = []
        for setting in SETTINGS:
            if time.monotonic() > until or all(getattr(config, name) == to for name, to in setting.items()):
                continue
            if "layout_optimization" in setting and not self._has_convolutions():
                continue
            usual, settings = self.plain(), self.settings
            self.settings = {**settings, **setting}
            try:
                tried = self._compile(None)
                won = _clock(tried, usual, examples, races)
            except Exception as error:  # the model must run in any case
                logger.warning("kernelwright: Inductor keeps its settings: %s", one_line(error, 300))
                won = None
            if won is not None and won.won:
                self._plain = tried
            else:
                self.settings = settings
        return races

    def _has_convolutions(self) -> bool:
        return any("convolution" in str(node.target) for node in self._module.graph.nodes)

    def run(self, change: Change) -> Compiled | None:
        """Compile with our kernels; logs a warning and returns None if they make compilation fail."""
        from torch._inductor import config

        try:
            with config.patch(post_grad_custom_pre_pass=change):
                return self._compile(change)
        except Exception as error:  # our changes to the graph must never keep a model from running
            if change.done is None or not change.done.replaced:
                raise
            kind, message = type(error).__name__, one_line(error, 300)
            logger.warning("kernelwright: the graph stays Inductor's: %s: %s", kind, message)
            return None

    def plain(self) -> Compiled:
        """Compile without our kernels; cached."""
        if self._plain is None:
            self._plain = self._compile(None)
        return self._plain

    def take_as_plain(self, one: Compiled) -> None:
        """Use a compilation without our kernels as the plain one, instead of compiling again."""
        self._plain = self._plain or one

    def chosen(self, one: Compiled) -> Any:
        """The compiled graph; leaves its strides for AOTAutograd."""
        if self._noted is not None:
            self._noted[:] = one.strides
        return one.call

    def _compile(self, change: Change | None) -> Compiled:
        from torch._inductor import config
        from torch._inductor.compile_fx import compile_fx_inner

        if self._noted is not None:
            self._noted.clear()
        with config.patch(self.settings):
            call = compile_fx_inner(_copy(self._module), self._inputs, **self._options)
        done = change.done if change is not None and change.done is not None else Spliced()
        return Compiled(call, list(self._noted or ()), done)


def _copy(module: fx.GraphModule) -> fx.GraphModule:
    """The module with its own copy of the graph; parameters and metadata are shared."""
    graph = fx.Graph()
    names: dict[fx.Node, fx.Node] = {}
    node = graph.output(graph.graph_copy(module.graph, names))
    node.meta = dict(next(one for one in reversed(module.graph.nodes) if one.op == "output").meta)
    for old, new in names.items():
        new.meta = dict(old.meta)
    copied = fx.GraphModule(module, graph)
    copied.meta = dict(module.meta)
    return copied
