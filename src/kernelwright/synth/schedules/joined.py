"""Products that share their left operand, in one kernel: gate and up of an MLP, query, key and value of one input.

Beside: a program adds up the same tile of every product, so that the left operand is read once and what combines the
products, `silu(g) * u` say, is an epilogue of all of them. Columns: the tiles of all products are one grid, and each
product is a device function of its own, whose widths and epilogues may differ. Weights stay where they are: nothing is
copied together.
"""

from __future__ import annotations

from collections.abc import Mapping

from kernelwright.synth.primitives import REDUCTIONS, Prim, Unsupported, Val
from kernelwright.synth.program import JoinedSchedule
from kernelwright.synth.schedules.product import (
    ITEMSIZE,
    ProductPrinter,
    host_descriptors,
    persistent_programs,
    print_tiles,
    tiles_of,
)
from kernelwright.synth.source import Source

MOST = 4
"""Products that are joined."""


def products_of(source: Source) -> list[Prim]:
    """The products of a graph that has several, all of one left operand. Raises Unsupported."""
    prims = source.lowered.prims
    dots = [prim for prim in prims if prim.op == "matmul"]
    if any(prim.op in (*REDUCTIONS, "cumsum", "cumprod", "conv", "attention") for prim in prims):
        raise Unsupported("not products with maps alone")
    if not 2 <= len(dots) <= MOST:
        raise Unsupported(f"{len(dots)} products in one kernel")
    dtypes = {one.dtype for prim in dots for one in prim.args}
    if len(dtypes) > 1 or dtypes - set(ITEMSIZE):
        raise Unsupported(f"products of {' and '.join(sorted(dtypes))}")
    made = {prim.out.name: prim for prim in prims}
    if any(not _same(dots[0].args[0], prim.args[0], made) for prim in dots[1:]):
        raise Unsupported("products of different left operands")
    if any(len(prim.args[1].shape) != 2 for prim in dots):
        raise Unsupported("batches of products that share an operand")
    return dots


def _same(one: Val, other: Val, made: Mapping[str, Prim]) -> bool:
    """Whether two values are one, or made alike from the same ones."""
    if one.name == other.name:
        return True
    left, right = made.get(one.name), made.get(other.name)
    if left is None or right is None or (left.op, left.attrs) != (right.op, right.attrs):
        return False
    return len(left.args) == len(right.args) and all(
        _same(a, b, made) if isinstance(a, Val) and isinstance(b, Val) else a == b
        for a, b in zip(left.args, right.args, strict=True)
    )


def beside(source: Source) -> bool:
    """Whether all products have as many columns, so that one program can add them up. Raises Unsupported."""
    shapes = [source.shapes.of[prim.out.name] for prim in products_of(source)]
    return all(shape == shapes[0] for shape in shapes)


def apart(source: Source) -> bool:
    """Whether every result is made from one of the products alone. Raises Unsupported."""
    made, emitter = [prim.out.name for prim in products_of(source)], source.emitter()
    return all(
        sum(emitter.depends(value.name, frozenset({one})) for one in made) == 1 for value, _ in source.outputs
    )


def print_joined(source: Source, schedule: JoinedSchedule) -> None:
    """Raises Unsupported where the graph's products cannot be joined so."""
    dots = products_of(source)
    if len(dots) != schedule.products:
        raise Unsupported(f"a schedule of {schedule.products} products for {len(dots)}")
    if schedule.form == "columns":
        _print_columns(source, schedule, dots)
    elif beside(source):
        print_tiles(source, ProductPrinter(source, schedule, dots))
    else:
        raise Unsupported("products of different widths side by side")


def _print_columns(source: Source, schedule: JoinedSchedule, dots: list[Prim]) -> None:
    if not apart(source):
        raise Unsupported("a result of several products whose tiles are apart")
    inner = schedule.model_copy(update={"persistent": False})
    parts = [ProductPrinter(source, inner, [prim], function=True) for prim in dots]
    calls, constants = [], dict[str, str]()
    for part in parts:
        part.find_tile()
        part.walk()
        part.finish()
        constants |= part.constants()
    for _, buffer in source.outputs:
        source.allocate(buffer)
    given = host_descriptors(source, parts) if parts[0].through else {}
    for place, part in enumerate(parts):
        own = [f"{one.argument}_desc" for one in (part.a, *part.rights)] if part.through else []
        own += [f"{buffer.name}_desc" for _, buffer in part.outputs if part.stored(buffer)]
        names = [buffer.name for _, buffer in part.outputs]
        calls.append(
            source.function(f"{source.label}_{place}", part.emitter, ["tile", *own], names, part.constants())
        )
    _launch(source, schedule, parts, calls, constants, given)


def _launch(
    source: Source,
    schedule: JoinedSchedule,
    parts: list[ProductPrinter],
    calls: list[str],
    constants: dict[str, str],
    given: dict[str, str],
) -> None:
    """The kernel that gives each program tiles of one product after another's."""
    emitter = source.emitter()
    for part in parts:
        emitter.pointers |= part.emitter.pointers
        emitter.sizes |= part.emitter.sizes
        emitter.compound |= part.emitter.compound
    emitter.line(f"tiles_m = tl.cdiv({emitter.size(parts[0].m)}, BLOCK_M)")
    ends = [f"end{place}" for place in range(len(parts))]
    for place, part in enumerate(parts):
        before = f"{ends[place - 1]} + " if place else ""
        emitter.line(f"{ends[place]} = {before}tiles_m * tl.cdiv({emitter.size(part.n)}, BLOCK_N)")
    if schedule.persistent:
        emitter.open("tile", f"for tile in tl.range(tl.program_id(0), {ends[-1]}, PROGRAMS):")
        constants["PROGRAMS"] = "programs"
    else:
        emitter.line("tile = tl.program_id(0)")
    for place, call in enumerate(
        calls
    ):  # one after the other: branches of one `if` do not share their memory
        begin, end = ends[place - 1], ends[place]
        test = f"tile < {end}" if place == 0 else f"(tile >= {begin}) & (tile < {end})"
        emitter.line(f"if {test if place < len(calls) - 1 else f'tile >= {begin}'}:")
        emitter.line("    " + (call.replace("(tile,", f"(tile - {begin},", 1) if place else call))
    if schedule.persistent:
        emitter.close()
    tiles = " + ".join(tiles_of(source, part) for part in parts)
    if schedule.persistent:
        tiles = persistent_programs(source, tiles)
    source.kernel(f"{source.label}_kernel", emitter, [], constants, f"({tiles},)",
                  f"num_warps={schedule.warps}, num_stages={schedule.stages}",
                  [buffer.name for _, buffer in source.outputs], given=given)  # fmt: skip
