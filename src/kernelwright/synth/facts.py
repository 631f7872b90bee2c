"""The facts that schedules are chosen by: a graph's sizes in terms of its nest, operand widths, the work after a product.

Raises `Unsupported` if a nest does not fit the graph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from kernelwright.synth.estimate import Behind
from kernelwright.synth.pointwise import RULES
from kernelwright.synth.program import Decisions
from kernelwright.synth.schedules.joined import products_of
from kernelwright.synth.schedules.product import product_of, side_of
from kernelwright.synth.schedules.row import levels_of, space_of
from kernelwright.synth.schedules.scan import scan_of
from kernelwright.synth.source import Source

_INSTRUCTIONS = {
    "erf": 22, "gelu": 26, "silu": 14, "mish": 30, "softplus": 16, "tanh": 14, "exp": 6, "log": 6, "div": 8, "sigmoid": 14,
    "pow": 20, "cos": 20, "sin": 20,
}  # fmt: skip


def extents_of(source: Source, nest: str) -> tuple[int, ...]:
    """The sizes that determine a nest's schedules."""
    hints = source.shapes.hints()
    if nest == "product":
        prim = product_of(source)
        return math.prod(prim.out.shape[:-1]), prim.out.shape[-1], prim.args[0].shape[-1]
    if nest == "joined":
        dots = products_of(source)
        out = dots[0].out.shape
        return math.prod(out[:-1]), out[-1], dots[0].args[0].shape[-1], len(dots)
    if nest == "attention":
        prim = next(prim for prim in source.lowered.prims if prim.op == "attention")
        return (
            math.prod(prim.args[0].shape[:2]),
            prim.args[0].shape[2],
            prim.args[1].shape[2],
            prim.args[0].shape[3],
        )
    if nest == "convolution":
        prim = next(prim for prim in source.lowered.prims if prim.op == "conv")
        places = math.prod(prim.out.shape) // prim.out.shape[1]
        return (
            places,
            prim.out.shape[1],
            *prim.args[1].shape[1:],
            prim.attr("groups"),
            math.prod(prim.attr("stride")),
        )
    if nest == "scan":
        scanned = scan_of(source)
        shape, dim = scanned.out.shape, scanned.attr("dim")
        return math.prod(shape) // max(shape[dim], 1), shape[dim], int(math.prod(shape[dim + 1 :]) == 1)
    if nest == "row":
        space = space_of(source)
        rows, columns = (
            math.prod(size.value(hints) for size in part) for part in (space.kept, space.reduced)
        )
        return rows, columns, int(space.contiguous), len(levels_of(source.lowered.prims))
    return (math.prod(source.outputs[0][0].shape),)


def itemsize_of(source: Source) -> int:
    """Bytes per element of the multiplied operands; without a contraction, of the widest argument."""
    read = [prim.args[0] for prim in source.lowered.prims if prim.op in ("matmul", "conv", "attention")]
    return 4 if any(one.dtype in ("float32", "float64") for one in read or source.lowered.arguments) else 2


def behind(source: Source) -> Behind:
    """Estimated work per element after a product, or after several joined ones."""
    emitter, dots = source.emitter(), [prim for prim in source.lowered.prims if prim.op == "matmul"]
    made = frozenset(prim.out.name for prim in dots)
    later = [one for one in source.lowered.prims if one.op in RULES and emitter.depends(one.out.name, made)]
    operands = {side_of(source, prim, row).argument for prim in dots for row in (True, False)}
    whole = {math.prod(prim.out.shape) for prim in dots}
    read = [
        one for one in source.lowered.arguments if math.prod(one.shape) in whole and one.name not in operands
    ]
    bytes_read = sum(4 if one.dtype == "float32" else 2 for one in read)
    return Behind(sum(_INSTRUCTIONS.get(one.op, 2) for one in later) // len(dots), bytes_read // len(dots))


def legal(kind: type[Decisions], **values: Any) -> Iterator[Any]:
    """Yields the schedule if it is legal."""
    try:
        yield kind(**values)
    except ValidationError:
        return


def instruction(precision: str, convolution: bool = False) -> str:
    """The precision in which products of float32 are computed, or a convolution's, from the task's precision."""
    return "tf32" if precision == "tf32" or (convolution and precision != "ieee") else "ieee"


def plain_operands(source: Source) -> bool:
    """Whether both operands are plain arguments without batches, as descriptors require."""
    prim = product_of(source)
    plain = all(side_of(source, prim, row).argument for row in (True, False))
    return plain and len(prim.args[1].shape) == 2
