"""Kernels along one dimension: statistics over it, then a value per element (a norm) or the statistic (a reduction).

A tensor is seen as (outer, n, inner), where n is the dimension at issue: `inner` is 1 for the last dimension, and its
programs take whole rows or walk them; else a program takes a block of inner places and all of n. The statistics and
formulas are those of `operators.ROWS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

from kernelwright.data.families.epilogue import NOTHING, Chain
from kernelwright.data.families.spec import Draw, Dtype, Stage, kernel, launch, widened
from kernelwright.data.library import EMPTY, REDUCE
from kernelwright.data.operators import ROWS, RowOperator, Statistic

_T = TypeVar("_T")

FORMULAS: Mapping[str, RowOperator] = MappingProxyType(
    {
        **ROWS,
        "l1mean": RowOperator(
            "l1mean",
            ("{x} / {x}.abs().mean(dim=-1, keepdim=True)",),
            (Statistic("s", "sum", "tl.abs({x})", "{s} / n"),),
            "{x} / s",
        ),
        "rms": RowOperator(
            "rms",
            ("{x} / {x}.square().mean(dim=-1, keepdim=True).sqrt()",),
            (Statistic("s", "sum", "{x} * {x}", "tl.sqrt({s} / n)"),),
            "{x} / s",
        ),
        "maxnorm": RowOperator(
            "maxnorm",
            ("{x} / {x}.abs().amax(dim=-1, keepdim=True)",),
            (Statistic("m", "max", "tl.abs({x})"),),
            "{x} / m",
        ),
    }
)
"""The row operators of the vocabulary and those that families alone draw."""
LONGEST = 32768
"""Elements of a row that are held at once: on an H200 1.5 times as fast as walking them; from twice as many registers are
spilled."""
TILE = 4096
"""Elements of a tile: as many loads in flight as the memory's latency takes."""


def rows(
    draw: Draw,
    name: str,
    operator: str | RowOperator,
    dtype: Dtype,
    width: int,
    *,
    before: Chain = NOTHING,
    after: Chain = NOTHING,
    keep: bool = False,
    other: str = "",
    by_row: bool = False,
) -> Stage:
    """Along the last dimension, `width` long at full size. `operator` is one of FORMULAS, by name, or another one.
    `before` and `after` are done on the way; `keep` keeps a reduced dimension; `other` is the name of a second input that
    is added first; `by_row` says that a row is of one channel."""
    walks = width > LONGEST or (draw.slow and draw.tune.random() < 0.8)
    wide = widened(dtype)
    formula = FORMULAS[operator] if isinstance(operator, str) else operator
    reduces = formula.final is None
    block = draw.tile("BLOCK", (TILE,), (128, 256)) if walks else "triton.next_power_of_2(n)"
    warps = draw.tune.choice((4, 8)) if width > 1024 else draw.tune.choice((1, 2, 4))
    if width >= 8192:
        warps = 8 if walks else 16 if width > 16384 else draw.tune.choice((8, 16))
    inside = f"row * n + {'cols'}"
    load = [f"x = tl.load(x_ptr + {inside}, mask=mask, other=0.0){wide}"]
    if other:
        load.append(f"x += tl.load({other}_ptr + {inside}, mask=mask, other=0.0){wide}")
    load += before.lines("x", channel="cols", channel_mask="mask", offsets=inside, mask="mask")
    finish = _finish(formula, after, by_row)
    body = ["row = tl.program_id(0).to(tl.int64)"]
    if not walks:
        body += ["cols = tl.arange(0, BLOCK)", "mask = cols < n", *load, *_statistics(formula), *finish]
    else:
        tile = [
            "for start in range(0, n, BLOCK):",
            "    cols = start + tl.arange(0, BLOCK)",
            "    mask = cols < n",
            *(f"    {line}" for line in load),
        ]
        body += _walked(draw, formula, tile, "BLOCK")
        body += finish if reduces else [*tile, *(f"    {line}" for line in finish)]
    pointers = [
        "x_ptr",
        *([f"{other}_ptr"] if other else []),
        *_both(before.pointers, after.pointers),
        "out_ptr",
    ]
    passed = ["x", *([other] if other else []), *_both(before.arguments, after.arguments), "out"]
    if by_row and after.by_channel:
        pointers.append("channels")
        passed.append("x.shape[1]")
    shape = "x.shape[:-1]" if not keep else "*x.shape[:-1], 1"
    host = [f"out = x.new_empty({shape})" if reduces else "out = torch.empty_like(x)", "n = x.shape[-1]"]
    host += [
        *launch(f"{name}_kernel", "x.numel() // n,", [*passed, "n", f"BLOCK={block}", f"num_warps={warps}"]),
        "return out",
    ]
    takes = [("x", "{x}"), *([(other, other)] if other else []), *_both(before.takes, after.takes)]
    text = kernel(f"{name}_kernel", [*pointers, "n", "BLOCK: tl.constexpr"], body)
    return Stage(name, (text,), tuple(takes), tuple(host), (*before.helpers, *after.helpers))


def _statistics(formula: RowOperator, tile: Sequence[str] = (), shape: str = "") -> list[str]:
    """Kernel lines that reduce `x` along its first dimension to each statistic.

    `tile`, where given, is a loop over tiles of `shape` with its loads, and is walked once for each statistic.
    """
    lines = []
    for stat in formula.statistics:
        reduced = f"tl.where(mask, {stat.term.format(x='x')}, {EMPTY[stat.how]})"
        if tile:
            name = stat.name
            joined = f"{name} + {reduced}" if stat.how == "sum" else f"tl.{stat.how}imum({name}, {reduced})"
            lines += [
                f"{name} = tl.full([{shape}], {EMPTY[stat.how]}, tl.float32)",
                *tile,
                f"    {name} = {joined}",
            ]
            reduced = name
        lines.append(f"{stat.name} = {stat.post.format(s=f'{REDUCE[stat.how]}({reduced}, 0)')}")
    return lines


def _walked(draw: Draw, formula: RowOperator, tile: Sequence[str], shape: str) -> list[str]:
    """`_statistics` over tiles, in one walk where an extreme and the sum of exponentials beside it are asked for: each
    place keeps its own extreme, and what it has summed is scaled whenever that moves (Milakov and Gimelshein 2018)."""
    first, last = formula.statistics[0], formula.statistics[-1]
    power = {"max": "{x} - {m}", "min": "{m} - {x}"}.get(first.how, "")
    summed = f"tl.exp({power.format(x='{x}', m=first.name)})"
    apart = draw.slow and draw.tune.random() < 0.5
    if apart or not power or (first.term, last.term) != ("{x}", summed):
        return _statistics(formula, tile, shape)
    m, s = first.name, last.name
    # The least of all numbers and not an infinity, of which two would have no difference.
    worst, masked = ("-3.4e38", "-float('inf')") if first.how == "max" else ("3.4e38", "float('inf')")
    return [
        f"{m} = tl.full([{shape}], {worst}, tl.float32)",
        f"{s} = tl.zeros([{shape}], tl.float32)",
        *tile,
        f"    x = tl.where(mask, x, {masked})",
        f"    best = tl.{first.how}imum({m}, x)",
        f"    {s} = {s} * tl.exp({power.format(x=m, m='best')}) + tl.exp({power.format(x='x', m='best')})",
        f"    {m} = best",
        f"best = {REDUCE[first.how]}({m}, 0)",
        f"{s} = tl.sum({s} * tl.exp({power.format(x=m, m='best')}), 0)",
        f"{m} = best",
        *([f"{s} = {last.post.format(s=s)}"] if last.post != "{s}" else []),
    ]


def _finish(formula: RowOperator, after: Chain, by_row: bool) -> list[str]:
    channel, one = ("row % channels", True) if by_row else ("cols", False)
    if formula.final is None:
        value = formula.statistics[-1].name
        steps = after.lines("total", channel=channel, one=one, offsets="row")
        if steps:
            return [f"total = {value}", *steps, "tl.store(out_ptr + row, total)"]
        return [f"tl.store(out_ptr + row, {value})"]
    at = "row * n + cols"
    steps = after.lines("y", channel=channel, channel_mask="mask", one=one, offsets=at, mask="mask")
    return [f"y = {formula.final.format(x='x')}", *steps, "tl.store(out_ptr + row * n + cols, y, mask=mask)"]


def strided(
    draw: Draw,
    name: str,
    operator: str | RowOperator,
    dtype: Dtype,
    length: int,
    dim: int,
    *,
    before: Chain = NOTHING,
    after: Chain = NOTHING,
    keep: bool = False,
) -> Stage:
    """Along dimension `dim`, which is not the last one and `length` long at full size. Channel operands of the chains
    run along it; those of a reduction along the dimension before, which is the second then."""
    formula = FORMULAS[operator] if isinstance(operator, str) else operator
    reduces = formula.final is None
    wide = widened(dtype)
    walks = length > 256 or (draw.slow and draw.tune.random() < 0.5)
    held = 64 if walks else 1 << (length - 1).bit_length()
    wide_block = min(max(TILE // held, 32), 512)
    inner_block = draw.tile("BLOCK_I", (32,) if walks else (wide_block,), (16,))
    row_block = draw.tile("BLOCK_R", (64,), (4, 8)) if walks else "triton.next_power_of_2(n)"
    # A grid has at most 65,535 programs along its second axis: not the rows outside, from the third dimension on.
    outer, block = (0, 1) if dim > 1 else (1, 0)
    grid = {outer: "outer", block: f"triton.cdiv(inner, {inner_block})"}
    at = "base + r[:, None] * inner + i[None, :]"
    load = [
        "mask = (r < n)[:, None] & (i < inner)[None, :]",
        f"x = tl.load(x_ptr + {at}, mask=mask, other=0.0){wide}",
        *before.lines("x", channel="r", channel_mask="r < n", expand="[:, None]", offsets=at, mask="mask"),
    ]
    body = [
        f"base = tl.program_id({outer}).to(tl.int64) * n * inner",
        f"i = tl.program_id({block}) * BLOCK_I + tl.arange(0, BLOCK_I)",
    ]
    if not reduces:
        finish = [
            f"y = {formula.final.format(x='x')}",  # type: ignore[union-attr]
            *after.lines("y", channel="r", channel_mask="r < n", expand="[:, None]", offsets=at, mask="mask"),
            f"tl.store(out_ptr + {at}, y, mask=mask)",
        ]
    else:
        out_at = f"tl.program_id({outer}).to(tl.int64) * inner + i"
        channel = f"tl.program_id({outer}) % channels"
        steps = after.lines("total", channel=channel, one=True, offsets=out_at, mask="i < inner")
        value = formula.statistics[-1].name
        finish = [f"tl.store(out_ptr + {out_at}, {'total' if steps else value}, mask=i < inner)"]
        finish = [*([f"total = {value}", *steps] if steps else []), *finish]
    if not walks:
        body += ["r = tl.arange(0, BLOCK_R)", *load, *_statistics(formula), *finish]
    else:
        tile = ["for start in range(0, n, BLOCK_R):", "    r = start + tl.arange(0, BLOCK_R)"]
        tile += [f"    {line}" for line in load]
        body += _walked(draw, formula, tile, "BLOCK_R, BLOCK_I")
        body += finish if reduces else [*tile, *(f"    {line}" for line in finish)]
    host = geometry(dim)
    if reduces:
        kept = ["1"] if keep else []
        shape = ", ".join([*(["*x.shape[:dim]"] if dim else []), *kept, "*x.shape[dim + 1 :]"]).replace(
            "dim", str(dim)
        )
        host.append(f"out = x.new_empty({shape.replace(f'{dim} + 1', str(dim + 1))})")
    else:
        host.append("out = torch.empty_like(x)")
    counts = reduces and after.by_channel
    passed = [
        "x",
        *_both(before.arguments, after.arguments),
        "out",
        *(["x.shape[1]"] if counts else []),
        "n",
        "inner",
    ]
    host += [
        *launch(
            f"{name}_kernel",
            f"{grid[0]}, {grid[1]}",
            [*passed, f"BLOCK_R={row_block}", f"BLOCK_I={inner_block}", draw.warps((4, 8), (1,))],
        ),
        "return out",
    ]
    parameters = [
        "x_ptr",
        *_both(before.pointers, after.pointers),
        "out_ptr",
        *(["channels"] if counts else []),
    ]
    parameters += ["n", "inner"]
    text = kernel(f"{name}_kernel", [*parameters, "BLOCK_R: tl.constexpr", "BLOCK_I: tl.constexpr"], body)
    takes = (("x", "{x}"), *_both(before.takes, after.takes))
    return Stage(name, (text,), takes, tuple(host), (*before.helpers, *after.helpers))


def _both(before: Iterable[_T], after: Iterable[_T]) -> list[_T]:
    """What two chains of one kernel take: what they share, once."""
    return list(dict.fromkeys((*before, *after)))


def geometry(dim: int) -> list[str]:
    """Host lines that give `n`, `inner` and `outer` for a dimension counted from the left."""
    outer = {0: "1", 1: "x.shape[0]"}.get(dim, f"x.shape[:{dim}].numel()")
    if dim == 0:
        return ["n = x.shape[0]", "inner = x.numel() // n", "outer = 1"]
    return [f"n = x.shape[{dim}]", f"inner = x.stride({dim})", f"outer = {outer}"]


__all__: Sequence[str] = ["geometry", "rows", "strided"]
