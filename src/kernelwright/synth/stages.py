"""Prints graphs that no single nest computes as several kernels, one after another.

Reductions over each space, each scan, and the contraction are separate kernels, which store their values in buffers for later
ones; everything between is computed where it is read. A result is stored by the kernel that makes the last value it needs, if
the kernel's nest can, and otherwise by maps. Does not search for the fastest cut.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from kernelwright.synth.primitives import CONTRACTIONS, REDUCTIONS, SCANS, Prim, Unsupported
from kernelwright.synth.schedules.attention import print_attention
from kernelwright.synth.schedules.convolution import print_convolution
from kernelwright.synth.schedules.depthwise import print_depthwise
from kernelwright.synth.schedules.joined import print_joined, products_of
from kernelwright.synth.schedules.map import print_map
from kernelwright.synth.schedules.online import print_any_row
from kernelwright.synth.schedules.product import print_product
from kernelwright.synth.schedules.scan import print_scan
from kernelwright.synth.schedules.transpose import print_transpose
from kernelwright.synth.source import Source, numel
from kernelwright.synth.spaces import DEFAULTS

PRINTERS: dict[str, Callable[[Source, Any], None]] = {
    "map": print_map, "row": print_any_row, "product": print_product, "joined": print_joined,
    "attention": print_attention, "convolution": print_convolution, "depthwise": print_depthwise,
    "scan": print_scan, "transpose": print_transpose,
}  # fmt: skip
MOST = 8
"""Most reductions, scans and contractions in one program that depend on each other."""


@dataclasses.dataclass(frozen=True)
class Stage:
    """One kernel: the values that it stores, and those that earlier ones have stored."""

    nest: str
    schedule: Any
    """Chosen by a rule of thumb."""
    results: tuple[str, ...]
    stored: tuple[str, ...] = ()
    main: bool = False
    """Whether a program's schedule is about this kernel: the contraction's, or the one that reads most."""

    def of(self, source: Source, number: int) -> Source:
        """Its part of the whole source, not yet printed."""
        return source.part(self.results, self.stored, f"{source.label[:40]}_{number}")


def nest_of(source: Source) -> str:
    """The loop nest that computes a graph. Raises Unsupported if there is none."""
    ops = [prim.op for prim in source.lowered.prims]
    contractions = [op for op in ops if op in CONTRACTIONS]
    if len(contractions) > 1:
        products_of(source)
        return "joined"
    if contractions:
        return {"matmul": "product", "conv": "convolution", "attention": "attention"}[contractions[0]]
    if any(op in SCANS for op in ops):
        return "scan"
    return "row" if any(op in REDUCTIONS for op in ops) else "map"


def cut(source: Source) -> tuple[Stage, ...]:
    """The kernels of a graph, in order; empty if one nest computes it. Raises Unsupported."""
    results = tuple(dict.fromkeys(value.name for value in source.lowered.results))
    if _stage(source, results, ()) is not None:
        return ()
    left = [prim for prim in source.lowered.prims if prim.op in (*REDUCTIONS, *SCANS, *CONTRACTIONS)]
    if sum(prim.op in CONTRACTIONS for prim in left) > 1:
        products_of(source)
        raise Unsupported("contractions that are not joined")
    stages, stored, open_results = list[Stage](), tuple[str, ...](), list(results)
    while left:
        stage = _next(source, left, open_results, stored)
        left = [prim for prim in left if prim.out.name not in stage.results]
        open_results = [name for name in open_results if name not in stage.results]
        stored = (*stored, *stage.results)
        stages.append(stage)
        if len(stages) > MOST:
            raise Unsupported("more kernels than a program has")
    stages += _maps(source, open_results, stored)
    return _mark_main(source, _read(source, stages, results))


def _mark_main(source: Source, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    def weight(stage: Stage) -> tuple[bool, int]:
        prims = [prim for prim in stage.of(source, 0).lowered.prims if prim.op not in ("iota", "full")]
        sizes = [math.prod(one.shape) for prim in prims for one in prim.reads()]
        return any(prim.op in CONTRACTIONS for prim in prims), max(sizes, default=0)

    main = max(stages, key=weight)
    return tuple(dataclasses.replace(stage, main=stage is main) for stage in stages)


def _stage(source: Source, results: Collection[str], stored: Collection[str]) -> Stage | None:
    """One kernel by the first rule of thumb that fits; None if none does."""
    if not results:
        return None
    with contextlib.suppress(Unsupported, KeyError, ValueError, IndexError, ArithmeticError):
        part = source.part(results, stored, "")
        nest = nest_of(part)
        for schedule in itertools.islice(DEFAULTS[nest](part, "ieee"), 6):
            with contextlib.suppress(Unsupported):
                PRINTERS[schedule.nest](source.part(results, stored, ""), schedule)
                return Stage(nest, schedule, tuple(results), tuple(stored))
    return None


def _next(source: Source, left: list[Prim], results: list[str], stored: tuple[str, ...]) -> Stage:
    """The next kernel: everything computable now in the first primitive's space, with results that its nest can store."""
    emitter = source.emitter()
    waits = {prim.out.name: {one.out.name for one in left if one is not prim
                             and emitter.depends(prim.out.name, frozenset({one.out.name}))} for prim in left}  # fmt: skip
    first = next(prim for prim in left if not waits[prim.out.name])
    same = [
        prim.out.name
        for prim in left
        if prim.op in REDUCTIONS and _space(source, prim) == _space(source, first)
    ]
    same = [name for name in same if waits[name] <= set(same)] if first.op in REDUCTIONS else [first.out.name]
    level = [name for name in same if not waits[name]]
    for made in (same, level, [first.out.name]):
        others = frozenset(prim.out.name for prim in left if prim.out.name not in made)
        known = [name for name in results if name not in made and not emitter.depends(name, others)
                 and emitter.depends(name, frozenset(made))]  # fmt: skip
        fit = [name for name in known if _stage(source, (*made, name), stored) is not None]
        for chosen in dict.fromkeys([(*made, *known), (*made, *fit), tuple(made)]):
            stage = _stage(source, chosen, stored)
            if stage is not None:
                return stage
    raise Unsupported(f"{first.op} in no nest")


def _space(source: Source, prim: Prim) -> Any:
    return source.shapes.of[prim.reads()[0].name], prim.attr("dims") if prim.op in REDUCTIONS else prim.op


def _maps(source: Source, results: list[str], stored: tuple[str, ...]) -> Iterator[Stage]:
    """Stages of maps, one per size of results. Raises Unsupported."""

    def size(name: str) -> str:
        return numel(source.shapes.of[name]).text()

    for _, names in itertools.groupby(sorted(results, key=size), key=size):
        stage = _stage(source, tuple(names), stored)
        if stage is None:
            raise Unsupported("a result in no nest")
        yield stage


def _read(source: Source, stages: list[Stage], results: tuple[str, ...]) -> tuple[Stage, ...]:
    """The stages, without values that are not read."""
    kept: list[Stage] = []
    needed = set(results)
    for stage in reversed(stages):
        own = tuple(name for name in stage.results if name in needed)
        if own:
            part = source.part(own, stage.stored, "")
            read = {one.name for prim in part.lowered.prims for one in prim.reads()} | set(own)
            stored = tuple(name for name in stage.stored if name in read)
            needed |= set(stored)
            kept.append(dataclasses.replace(stage, results=own, stored=stored))
    return tuple(reversed(kept))
