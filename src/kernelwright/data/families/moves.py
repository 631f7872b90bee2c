"""Moves: elements in another order, several times, from two tensors, or some of them, with maps before or after.

    flip, roll, transpose, repeat, repeat_interleave     an output element reads another place
    cat, index_select                                     one of two tensors; rows that an index names
    masked_fill, tril, triu                               a number in place of some

A map of elements does not mind the order, so one kernel reads each element where it comes from and maps it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kernelwright.data.families.epilogue import NOTHING, Chain, chain
from kernelwright.data.families.spec import Design, Draw, Family, Op, Stage, kernel, launch, tensor

LEVELS = (1, 2, 3)


@dataclass(frozen=True)
class Move:
    """How the elements come to their places. `row` and `col` are the output's places, `m` and `n` its sizes."""

    op: Op
    source: str
    """The place in `x` of an output element, with `place` its place in a flat output."""
    lines: tuple[str, ...] = ()
    """What the kernel does before it loads."""
    after: str = ""
    """What it makes of the loaded element `x`, or nothing."""
    shape: tuple[str, str] = ("m", "n")
    """The output's rows and columns, over those of `x`."""
    takes: tuple[str, ...] = ()
    """Other tensors that the kernel reads."""
    numbers: tuple[str, ...] = ()
    """Host names of sizes that the kernel needs besides: `m` and `n` are the output's."""


def flip(draw: Draw) -> Move:
    dim = draw.pick((0, 1, -1))
    spelled = draw.pick(
        (f"torch.flip({{x}}, dims=[{dim}])", f"torch.flip({{x}}, [{dim}])", f"{{x}}.flip({dim})")
    )
    source = "(m - 1 - row) * n + col" if dim == 0 else "row * n + n - 1 - col"
    return Move(Op(f"flip:{dim % 2}", spelled), source)


def roll(draw: Draw) -> Move:
    dim, shift = draw.pick((0, 1, -1)), draw.pick(range(1, 16))
    spelled = draw.pick(
        (f"torch.roll({{x}}, shifts={shift}, dims={dim})", f"torch.roll({{x}}, {shift}, {dim})")
    )
    source = (
        f"(row + m - {shift} % m) % m * n + col" if dim == 0 else f"row * n + (col + n - {shift} % n) % n"
    )
    return Move(Op(f"roll:{dim % 2}", spelled), source)


def repeat(draw: Draw) -> Move:
    down, across = draw.pick(((1, 2), (2, 1), (1, 3), (2, 2), (3, 1), (1, 4)))
    spelled = draw.pick((f"{{x}}.repeat({down}, {across})", f"torch.tile({{x}}, ({down}, {across}))"))
    shape = (f"m * {down}" if down > 1 else "m", f"n * {across}" if across > 1 else "n")
    return Move(
        Op("repeat", spelled), "row % rows * cols + col % cols", shape=shape, numbers=("rows", "cols")
    )


def interleave(draw: Draw) -> Move:
    dim, count = draw.pick((0, 1, -1)), draw.pick((2, 3, 4))
    spelled = draw.pick(
        (
            f"torch.repeat_interleave({{x}}, {count}, dim={dim})",
            f"{{x}}.repeat_interleave({count}, dim={dim})",
        )
    )
    op = Op(f"repeat_interleave:{dim % 2}", spelled)
    if dim == 0:
        return Move(op, f"row // {count} * n + col", shape=(f"m * {count}", "n"))
    return Move(op, f"row * (n // {count}) + col // {count}", shape=("m", f"n * {count}"))


def cat(draw: Draw) -> Move:
    dim = draw.pick((0, 1, -1))
    spelled = draw.pick((f"torch.cat([{{x}}, other], dim={dim})", f"torch.cat(({{x}}, other), {dim})"))
    op = Op(f"cat:{dim % 2}", spelled, inputs=(("other", tensor("M, N")),))
    if dim == 0:
        return Move(
            op,
            "place",
            ("first = row < rows",),
            "tl.where(first, x, tl.load(other_ptr + place - rows * n, mask=mask & (row >= rows), other=0.0))",
            ("m * 2", "n"),
            ("other",),
            ("rows",),
        )
    return Move(
        op,
        "row * cols + col",
        ("first = col < cols",),
        "tl.where(first, x, tl.load(other_ptr + row * cols + col - cols, mask=mask & (col >= cols), other=0.0))",
        ("m", "n * 2"),
        ("other",),
        ("cols",),
    )


def select(draw: Draw) -> Move:
    dim = draw.pick((0, 0, 1))
    spelled = draw.pick((f"torch.index_select({{x}}, {dim}, index)", f"{{x}}.index_select({dim}, index)"))
    op = Op(f"index_select:{dim}", spelled, inputs=(("index", f"torch.randint(0, {'MN'[dim]}, (K,))"),))
    if dim == 0:
        lines = ("picked = tl.load(index_ptr + row, mask=mask, other=0)",)
        return Move(op, "picked * n + col", lines, shape=("index.numel()", "n"), takes=("index",))
    lines = ("picked = tl.load(index_ptr + col, mask=mask, other=0)",)
    return Move(op, "row * cols + picked", lines, "", ("m", "index.numel()"), ("index",), ("cols",))


def fill(draw: Draw) -> Move:
    value = draw.pick(("0.0", "-1.0", "1.0", "0.5"))
    spelled = f"{{x}}.masked_fill(keep, {value})"
    op = Op("masked_fill", spelled, inputs=(("keep", "torch.rand(M, N) > 0.5"),))
    return Move(
        op,
        "place",
        (),
        f"tl.where(tl.load(keep_ptr + place, mask=mask, other=0), {value}, x)",
        takes=("keep",),
    )


def triangle(draw: Draw) -> Move:
    name, diagonal = draw.pick(("tril", "triu")), draw.pick((0, 0, 1, -1, 2))
    told = "" if not diagonal and draw.chance(0.7) else f", diagonal={diagonal}"
    spelled = draw.pick((f"torch.{name}({{x}}{told})", f"{{x}}.{name}({told.removeprefix(', ')})"))
    edge = f"row + {diagonal}" if diagonal > 0 else f"row - {-diagonal}" if diagonal else "row"
    return Move(
        Op(name, spelled), "place", (), f"tl.where(col {'<=' if name == 'tril' else '>='} {edge}, x, 0.0)"
    )


def _family(name: str, make: Callable[[Draw], Move]) -> Family:
    def moved(draw: Draw) -> Design:
        move = make(draw)
        return _design(draw, move.op, lambda early, late: _flat(draw, name, move, early, late))

    return Family(name, "layout", moved, LEVELS)


def transpose(draw: Draw) -> Design:
    """A matrix turned."""
    spelled = (
        "{x}.t().contiguous()",
        "torch.transpose({x}, 0, 1).contiguous()",
        "{x}.permute(1, 0).contiguous()",
    )
    return _design(
        draw, Op("transpose", draw.pick(spelled)), lambda early, late: _tiled(draw, early.then(late))
    )


def _design(draw: Draw, op: Op, stage: Callable[[Chain, Chain], Stage]) -> Design:
    """The move of a matrix, with a chain of maps before or after it."""
    sizes = {
        "M": draw.size((512, 1024, 2000, 4096, 8192), (12, 16), (19, 27)),
        "N": draw.size((512, 768, 1000, 2048, 4096, 8192), (24, 32), (35, 45)),
    }
    if "K" in str(op.inputs):
        sizes["K"] = draw.size((256, 1000, 4096), (10, 24), (13, 31))
    maps = chain(draw, draw.operators - 1)
    early, late = (maps, NOTHING) if draw.chance(0.4) else (NOTHING, maps)
    ops = [*early.ops, op, *late.ops]
    ops[0] = replace(ops[0], inputs=(("x", tensor("M, N")), *ops[0].inputs))
    return Design(tuple(ops), (stage(early, late),), sizes, "float32", draw.constants)


def _tiled(draw: Draw, maps: Chain) -> Stage:
    side = draw.tile("SIDE", (32, 64), (16,))
    lines = [
        "i = tl.program_id(0) * SIDE + tl.arange(0, SIDE)",
        "j = tl.program_id(1) * SIDE + tl.arange(0, SIDE)",
        "mask = (i < m)[:, None] & (j < n)[None, :]",
        "x = tl.load(x_ptr + i[:, None] * n + j[None, :], mask=mask)",
        *maps.lines("x"),
        "tl.store(out_ptr + j[None, :] * m + i[:, None], x, mask=mask)",
    ]
    host = [
        "m, n = x.shape",
        "out = torch.empty((n, m), device=x.device, dtype=x.dtype)",
        *launch(
            "transpose_kernel",
            f"triton.cdiv(m, {side}), triton.cdiv(n, {side})",
            ["x", *maps.arguments, "out", "m", "n", f"SIDE={side}", draw.warps((4, 8), (1,))],
        ),
        "return out",
    ]
    text = kernel(
        "transpose_kernel", ["x_ptr", *maps.pointers, "out_ptr", "m", "n", "SIDE: tl.constexpr"], lines
    )
    return Stage("transpose", (text,), (("x", "{x}"), *maps.takes), tuple(host), maps.helpers)


def _flat(draw: Draw, name: str, move: Move, early: Chain, late: Chain) -> Stage:
    block = draw.tile("BLOCK", (512, 1024), (64, 128))
    masked = "mask & first" if "first" in str(move.lines) else "mask"
    lines = [
        "place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)",
        "mask = place < m * n",
        "row = place // n",
        "col = place % n",
        *move.lines,
        f"x = tl.load(x_ptr + {move.source}, mask={masked}, other=0.0)",
        *early.lines("x"),
        *([f"x = {move.after}"] if move.after else []),
        *late.lines("x"),
        "tl.store(out_ptr + place, x, mask=mask)",
    ]
    both = [*early.arguments, *late.arguments]
    pointers = ["x_ptr", *(f"{one}_ptr" for one in move.takes), *early.pointers, *late.pointers]
    host = [
        "m, n = x.shape",
        *(f"{number} = {dict(rows='m', cols='n')[number]}" for number in move.numbers),
        *([f"m, n = {', '.join(move.shape)}"] if move.shape != ("m", "n") else []),
        "out = torch.empty((m, n), device=x.device, dtype=x.dtype)",
        *launch(
            f"{name}_kernel",
            f"triton.cdiv(m * n, {block}),",
            [
                "x",
                *move.takes,
                *both,
                "out",
                "m",
                "n",
                *move.numbers,
                f"BLOCK={block}",
                draw.warps((4, 8), (1,)),
            ],
        ),
        "return out",
    ]
    text = kernel(
        f"{name}_kernel", [*pointers, "out_ptr", "m", "n", *move.numbers, "BLOCK: tl.constexpr"], lines
    )
    takes = (("x", "{x}"), *((one, one) for one in move.takes), *early.takes, *late.takes)
    helpers = dict.fromkeys((*early.helpers, *late.helpers))
    return Stage(name, (text,), takes, tuple(host), tuple(helpers))


MOVES: dict[str, Callable[[Draw], Move]] = {
    "flip": flip,
    "roll": roll,
    "repeat": repeat,
    "repeat_interleave": interleave,
    "cat": cat,
    "index_select": select,
    "masked_fill": fill,
    "triangle": triangle,
}
FAMILIES = (
    *(_family(name, make) for name, make in MOVES.items()),
    Family("transpose", "layout", transpose, LEVELS),
)
