"""Compilations of one graph by Inductor, with kernels of ours and without, and the fastest of them.

The kernels that save most alone go in first, of every region in its best cut. Where the whole does not save what they save one by
one they are added again, one at a time, and stay where the whole gets faster: what Inductor fuses across the border of a group is
lost with it. Kernels of other cuts have their turn then, where none of the same nodes stayed.
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
_AS_FORETOLD = 0.8
"""Of the time that the kernels save one by one: a whole that saves so much is taken as it is."""


class Change(Protocol):
    """What Inductor calls on a graph before its own passes."""

    done: Spliced | None
    """What became of the graph; None before."""
    saves: dict[str, float]
    """By digest of a group that has a kernel, replaced or not: milliseconds by which that is the faster one, alone."""

    def __call__(self, graph: fx.Graph) -> None: ...


def race_changes(
    compiling: Compiling,
    change: Callable[[frozenset[str] | None], Change],
    examples: Sequence[Any] | None,
    seconds: float,
) -> tuple[Compiled | None, Spliced | None, list[Race]]:
    """The fastest compilation with kernels of ours, if any is faster than Inductor's alone; what the first try did; and what was
    clocked. `change` puts in all kernels, or those of some digests. Without `examples` nothing is clocked: the first try it is.
    `seconds` for parts of the kernels, where all together do not save what they save one by one."""
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
    if whole is not None and won is None:  # there is no room for a clock
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
    """Kernels added as long as each makes the whole faster, in `order` of their digests, but for rivals of those that stayed:
    each breaks what Inductor would fuse around it. What was `done` at once is not tried again."""
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
    """A compiled graph, with the strides of its outputs as AOTAutograd reads them from the tracing context."""

    call: Any
    strides: list[Any]
    spliced: Spliced


class Compiling:
    """Compilations of one graph by Inductor, which takes each for the first and asserts that no strides are noted yet."""

    def __init__(
        self, module: fx.GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        self._module, self._inputs, self._options = module, example_inputs, options
        context = torch._guards.TracingContext.try_get()
        self._noted: list[Any] | None = context.output_strides if context is not None else None
        self._plain: Compiled | None = None

    def run(self, change: Change) -> Compiled | None:
        """With our kernels; None, and said aloud, where they keep the graph from compiling."""
        from torch._inductor import config

        try:
            with config.patch(post_grad_custom_pre_pass=change):
                return self._compile(change)
        except Exception as error:  # what our kernels did to the graph must never keep a model from running
            if change.done is None or not change.done.replaced:
                raise
            kind, said = type(error).__name__, one_line(error, 300)
            logger.warning("kernelwright: the graph stays Inductor's: %s: %s", kind, said)
            return None

    def plain(self) -> Compiled:
        """Without them, once."""
        if self._plain is None:
            self._plain = self._compile(None)
        return self._plain

    def take_as_plain(self, one: Compiled) -> None:
        """What holds no kernel of ours is Inductor's own: nothing is compiled again."""
        self._plain = self._plain or one

    def chosen(self, one: Compiled) -> Any:
        """The compiled graph, whose strides are left for AOTAutograd."""
        if self._noted is not None:
            self._noted[:] = one.strides
        return one.call

    def _compile(self, change: Change | None) -> Compiled:
        from torch._inductor.compile_fx import compile_fx_inner

        if self._noted is not None:
            self._noted.clear()
        call = compile_fx_inner(_copy(self._module), self._inputs, **self._options)
        done = change.done if change is not None and change.done is not None else Spliced()
        return Compiled(call, list(self._noted or ()), done)


def _copy(module: fx.GraphModule) -> fx.GraphModule:
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
