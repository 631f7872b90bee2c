"""Reasons for a schedule: a few lines printed from a program, as a model's thoughts before its plan.

    bytes 268 MB, operations 0.4 GFLOP: 1.5 a byte
    16384 rows of 4096, 16 values a thread in one pass
    not warps 1: 128 values a thread

Every number is computed from graph and schedule: least bytes moved, operations, tiles, values per thread and block, how often
operands are read again. Two other schedules are compared by the same figures. No GPU is named. For nests without figures, only
bytes and operations are given. The schedule need not be the best one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kernelwright.graph import sizes
from kernelwright.graph.types import Graph, TensorType
from kernelwright.synth.facts import extents_of, itemsize_of
from kernelwright.synth.plan import print_plan
from kernelwright.synth.primitives import REDUCTIONS, Unsupported
from kernelwright.synth.program import MapSchedule, ProductSchedule, RowSchedule
from kernelwright.synth.schedules.product import product_of
from kernelwright.synth.schedules.row import levels_of, space_of
from kernelwright.synth.sizes import next_power_of_two
from kernelwright.synth.source import Source
from kernelwright.synth.to_triton import label_of, scheduled_part

_WIDTHS = {"float64": 8, "int64": 8, "float32": 4, "int32": 4, "float16": 2, "bfloat16": 2, "int16": 2}
_MOVES = (
    "view", "permute", "expand", "slice", "cat", "pad", "flip", "alias", "take", "count", "full", "iota",
)  # fmt: skip
"""Primitives that compute nothing."""
_EXTENTS: dict[str, tuple[str, ...]] = {
    "product": ("m", "n", "k"), "joined": ("m", "n", "k"), "attention": ("heads", "queries", "keys", "depth"), "scan": ("rows", "columns"),
    "row": ("rows", "columns"), "convolution": ("places", "filters", "channels"), "map": ("elements",),
}  # fmt: skip
"""Names of the first values of `facts.extents_of`."""
_OTHERS = 2
_THREADS = 32


def think(graph: Graph, schedule: Any, others: Sequence[Any] = ()) -> str:
    """The lines, without tags. `others`: schedules of the same graph that were not chosen; those with the same figures are left
    out. Raises Unsupported for a graph without a nest."""
    graph = sizes.static(graph, {one.name: one.hint for one in graph.symbols})
    source, _ = scheduled_part(graph)
    moved, done = float(bytes_of(graph)), operations_of(source)
    lines = [f"bytes {_short(moved)}B, operations {_short(done)}FLOP: {done / moved:.2g} a byte"]
    chosen = facts(source, schedule)
    if chosen:
        lines.append(", ".join(f"{value} {name}" for name, value in chosen.items()))
    for other in others:
        theirs = facts(source, other) if type(other) is type(schedule) else {}
        apart = {name: value for name, value in theirs.items() if value != chosen.get(name)}
        if apart and len(lines) < 2 + _OTHERS:
            lines.append(
                f"not {_difference(schedule, other)}: " + ", ".join(f"{v} {n}" for n, v in apart.items())
            )
    return "\n".join(lines)


def outline(graph: Graph) -> str:
    """The facts that determine a plan, on one line: it starts like the plan, then gives sizes as powers of two:

        g1: linear+gelu  nest product  width 2  log2 m 10  n 13  k 13  bytes 27  operations 37

    A small model can neither multiply sizes nor name operators that it has rarely seen, but it can copy. Empty for a graph without
    a nest.
    """
    try:
        graph = sizes.static(graph, {one.name: one.hint for one in graph.symbols})
        source, nest = scheduled_part(graph)
        extents = extents_of(source, nest)
    except Unsupported:
        return ""
    fields = [f"g1: {label_of(graph)}", f"nest {nest}", f"width {itemsize_of(source)}"]
    if nest in ("row", "scan"):
        fields.append(f"contiguous {extents[2]}")
    if nest == "row":
        fields.append(f"levels {extents[3]}")
    powers = [f"{name} {_power(size)}" for name, size in zip(_EXTENTS[nest], extents, strict=False)]
    powers += [f"bytes {_power(bytes_of(graph))}", f"operations {_power(operations_of(source))}"]
    return "  ".join([*fields, "log2 " + "  ".join(powers)])


def bytes_of(graph: Graph) -> int:
    """Bytes of arguments read once and results written once. Sizes must be integers."""
    types = graph.types()
    total = 0
    for name in (*(one.name for one in graph.arguments), *graph.results):
        kind = types[name]
        if isinstance(kind, TensorType):
            total += math.prod(int(size) for size in kind.shape) * _WIDTHS.get(kind.dtype, 1)
    return total


def operations_of(source: Source) -> float:
    """Floating-point operations: two per step of a product, one per element that is computed or reduced."""
    total = 0.0
    for prim in source.lowered.prims:
        if prim.op == "matmul":
            total += 2.0 * math.prod(prim.out.shape) * prim.args[0].shape[-1]
        elif prim.op == "conv":
            filters = prim.args[1].shape
            total += 2.0 * math.prod(prim.out.shape) * math.prod(filters[1:])
        elif prim.op == "attention":
            query, key = prim.args[0].shape, prim.args[1].shape
            total += 4.0 * math.prod(query) * key[2]
        elif prim.op not in _MOVES:
            read = prim.reads()
            sized = read[0].shape if prim.op in REDUCTIONS and read else prim.out.shape
            total += math.prod(sized)
    return total


def facts(source: Source, schedule: Any) -> dict[str, str]:
    """Figures of a schedule for the graph: name -> value with its unit; {} for nests without figures."""
    if isinstance(schedule, ProductSchedule):
        return _product(source, schedule)
    if isinstance(schedule, RowSchedule):
        return _row(source, schedule)
    if isinstance(schedule, MapSchedule):
        count = math.prod(source.outputs[0][0].shape)
        tile = schedule.rows * schedule.block
        return {
            "programs": str(-(-count // tile)),
            "elements a thread": f"{tile / (_THREADS * schedule.warps):g}",
        }
    return {}


def _product(source: Source, schedule: ProductSchedule) -> dict[str, str]:
    prim = product_of(source)
    (tile_m, tile_n, tile_k), width = schedule.tile, _WIDTHS.get(prim.args[0].dtype, 4)
    m, n = math.prod(prim.out.shape[:-1]), prim.out.shape[-1]
    return {
        "tiles": str(-(-m // tile_m) * -(-n // tile_n) * schedule.split_k),
        "accumulators a thread": f"{tile_m * tile_n / (_THREADS * schedule.warps):g}",
        "KiB of operands in shared memory": f"{schedule.stages * (tile_m + tile_n) * tile_k * width / 1024:g}",
        "operations for each byte of operands loaded": f"{2 * tile_m * tile_n / ((tile_m + tile_n) * width):.3g}",
    }


def _row(source: Source, schedule: RowSchedule) -> dict[str, str]:
    space, hints = space_of(source), source.shapes.hints()
    rows, columns = (math.prod(size.value(hints) for size in part) for part in (space.kept, space.reduced))
    held = next_power_of_two(columns) if schedule.passes == "one_pass" else schedule.block
    # A separate walk if rows do not stay in registers.
    written = int(math.prod(source.outputs[0][0].shape) >= rows * columns)
    levels = {"one_pass": 1, "online": 1 + written}.get(
        schedule.passes, len(levels_of(source.lowered.prims)) + written
    )
    return {
        f"rows of {columns}": str(rows),
        "programs": str(-(-rows // schedule.rows) * schedule.split),
        "values a thread": f"{held * schedule.rows / (_THREADS * schedule.warps):g}",
        "walks over a row": str(levels),
    }


def _difference(one: Any, other: Any) -> str:
    """The decisions in which the other schedule differs, in the plan's words."""
    ours, theirs = (print_plan("x", each).split("  ")[1:] for each in (one, other))
    return " ".join(field for field in theirs if field not in ours)


def _power(count: float) -> int:
    """Exponent of the nearest power of two."""
    return round(math.log2(max(count, 1)))


def _short(count: float) -> str:
    """Three digits with a prefix and a space: `268 M`."""
    for unit in ("", "K", "M", "G"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} T"
