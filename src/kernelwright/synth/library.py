"""The library: a graph's nest, its best known schedule, and the schedules worth a search.

Best known schedules are in `best.json`, which `benchmarks/schedules.py --table` writes from measurements. For graphs not in the
table, rules of thumb per nest decide. Raises `Unsupported` for graphs without a nest; `program_of` returns None for them.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
from collections.abc import Iterator
from importlib import resources
from typing import Any

from pydantic import TypeAdapter

from kernelwright.errors import UserError
from kernelwright.graph.types import Graph
from kernelwright.hardware import target as sheet_of
from kernelwright.synth.facts import behind, extents_of, instruction, itemsize_of
from kernelwright.synth.plan import parse_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import Program, Schedule
from kernelwright.synth.schedules.product import product_of, side_of
from kernelwright.synth.schedules.transpose import along_rows, turned_dimension
from kernelwright.synth.source import Source
from kernelwright.synth.spaces import DEFAULTS, HEAVY, SPACES, stores_along_rows
from kernelwright.synth.to_triton import label_of, print_program, scheduled_part, unsupported

_SCHEDULE: TypeAdapter[Any] = TypeAdapter(Schedule)


def program_of_plan(graph: Graph, plan: str, by_name: bool = True) -> Program:
    """The program of a graph by a one-line plan. Raises UserError if it is not a plan, or is for another graph: with other
    operators and, unless `by_name`, also another nest. Raises Unsupported for a graph without a nest."""
    (label, schedule), own = parse_plan(plan), label_of(graph)
    if label != own and (by_name or schedule.nest != scheduled_part(graph)[1]):
        raise UserError(f"it is about {label}, and the graph is {own}")
    return Program(graph=graph, schedule=schedule)


def program_of(graph: Graph, target: str = "h200", precision: str = "ieee") -> Program | None:
    """The graph with its best known schedule; None if no nest fits."""
    for schedule in itertools.islice(candidates(graph, target, precision), 6):
        program = Program(graph=graph, schedule=schedule)
        with contextlib.suppress(Unsupported):
            print_program(program)
            return program
    return None


def candidates(graph: Graph, target: str, precision: str = "ieee") -> Iterator[Any]:
    """Schedules in order of preference: the table's, then rules of thumb, then simpler ones."""
    try:
        source, nest = scheduled_part(graph)
        with unsupported():
            known = _table().get(key_of(source, nest), {}).get(sheet_of(target).arch)
            rules = list(DEFAULTS[nest](source, precision))
    except Unsupported:
        return
    if known is not None:
        best = _SCHEDULE.validate_python(known)
        coarse = instruction(precision, convolution=nest == "convolution") == "tf32"
        own = (getattr(best, "precision", "ieee") == "tf32") == coarse
        if own or itemsize_of(source) == 2:  # the table has no separate entries for the two precisions
            yield best
    yield from rules


def schedules_of(graph: Graph, target: str = "h200", precision: str = "ieee") -> list[Any]:
    """Legal schedules worth measuring, the best known first; empty if no nest fits."""
    try:
        source, nest = scheduled_part(graph)
    except Unsupported:
        return []
    limit, itemsize = sheet_of(target).shared_per_block, itemsize_of(source)
    first = list(candidates(graph, target, precision))
    if not first:
        return []
    found = dict.fromkeys([*first, *SPACES[nest](source, precision)])
    return [schedule for schedule in found if schedule.fits(itemsize, limit)]


def key_of(source: Source, nest: str) -> str:
    """The table's key: nest, dtype, the relevant sizes rounded to powers of two, and the fastest dimension in memory if schedules
    depend on it."""
    dtype = source.lowered.arguments[0].dtype if source.lowered.arguments else "float32"
    sizes = [str(1 << round(math.log2(size))) if size else "0" for size in extents_of(source, nest)]
    form = ""
    if nest == "product":
        sides = [side_of(source, product_of(source), row) for row in (True, False)]
        form = "/" + "".join("x" if not one.argument else "k" if one.along_k else "o" for one in sides)
        form += "+" if behind(source).instructions > HEAVY else ""
    elif nest == "map":
        form = "/turned" if turned_dimension(source) is not None else ""
    elif nest == "row" and extents_of(source, nest)[2]:
        form = "/turned" if along_rows(source) else ""
    elif nest == "row" and not along_rows(source) and not stores_along_rows(source):
        form = "/planes"
    return f"{nest}/{dtype}/{'x'.join(sizes)}{form}"


@functools.cache
def _table() -> dict[str, dict[str, Any]]:
    place = resources.files("kernelwright.synth").joinpath("best.json")
    table: dict[str, dict[str, Any]] = json.loads(place.read_text("utf-8"))["schedules"]
    return table
