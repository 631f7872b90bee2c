"""Products that share their left operand in one kernel, such as gate and up of an MLP.

A program accumulates the same tile of every product, so that the left operand is read once and their combination, such as
`silu(g) * u`, is a common epilogue. Weights stay in place: nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelwright.graph.neighbours import MOST_PRODUCTS
from kernelwright.synth.primitives import REDUCTIONS, SCANS, Prim, Unsupported, Val
from kernelwright.synth.program import JoinedSchedule
from kernelwright.synth.schedules.product import ITEMSIZE, ProductPrinter, print_tiles
from kernelwright.synth.source import Source


def products_of(source: Source) -> list[Prim]:
    """The products of a graph with several, all with the same left operand and shape. Raises Unsupported."""
    prims = source.lowered.prims
    dots = [prim for prim in prims if prim.op == "matmul"]
    if any(prim.op in (*REDUCTIONS, *SCANS, "conv", "attention") for prim in prims):
        raise Unsupported("not products with maps alone")
    if not 2 <= len(dots) <= MOST_PRODUCTS:
        raise Unsupported(f"{len(dots)} products in one kernel")
    dtypes = {one.dtype for prim in dots for one in prim.args}
    if len(dtypes) > 1 or dtypes - set(ITEMSIZE):
        raise Unsupported(f"products of {' and '.join(sorted(dtypes))}")
    made = {prim.out.name: prim for prim in prims}
    if any(not _same(dots[0].args[0], prim.args[0], made) for prim in dots[1:]):
        raise Unsupported("products of different left operands")
    if any(len(prim.args[1].shape) != 2 for prim in dots):
        raise Unsupported("batches of products that share an operand")
    shapes = [source.shapes.of[prim.out.name] for prim in dots]
    if any(shape != shapes[0] for shape in shapes):
        raise Unsupported("products of different widths side by side")
    return dots


def _same(one: Val, other: Val, made: Mapping[str, Prim]) -> bool:
    """Whether two values are the same, or computed in the same way from the same values."""
    if one.name == other.name:
        return True
    left, right = made.get(one.name), made.get(other.name)
    if left is None or right is None or (left.op, left.attrs) != (right.op, right.attrs):
        return False
    return len(left.args) == len(right.args) and all(
        _same(a, b, made) if isinstance(a, Val) and isinstance(b, Val) else a == b
        for a, b in zip(left.args, right.args, strict=True)
    )


def print_joined(source: Source, schedule: JoinedSchedule) -> None:
    """Raises Unsupported if the graph's products cannot be joined like this."""
    dots = products_of(source)
    if len(dots) != schedule.products:
        raise Unsupported(f"a schedule of {schedule.products} products for {len(dots)}")
    print_tiles(source, ProductPrinter(source, schedule, dots))
