"""Lowers moves of elements: repetition, rotation, channel shuffles, borders, upsampling, scattered parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kernelwright.synth.backward import patches
from kernelwright.synth.call import Call, slice_of
from kernelwright.synth.primitives import Builder, Unsupported, Val


def _repeated(b: Builder, x: Val, dim: int, times: int, each: bool) -> Val:
    """Repeat along one dimension: the whole, or each element."""
    size, before, after = x.shape[dim], x.shape[:dim], x.shape[dim + 1 :]
    if times == 1:
        return x
    at = dim + 1 if each else dim
    inner = (size, 1) if each else (1, size)
    shape = [*before, *inner, *after]
    made = b.view(x, tuple(shape))
    shape[at] = times
    made = b.add("expand", (made,), x.dtype, tuple(shape))
    return b.view(made, (*before, size * times, *after))


def _repeat(call: Call) -> Val:
    times = tuple(call.arg(1, "repeats"))
    x = call.x
    x = call.b.view(x, ((1,) * (len(times) - len(x.shape)) + x.shape)) if len(times) > len(x.shape) else x
    for dim, many in enumerate(times):
        x = _repeated(call.b, x, dim, many, each=False)
    return x


def _repeat_interleave(call: Call) -> Val:
    times, dim = call.arg(1), call.arg(2, "dim")
    if not isinstance(times, int) or dim is None:
        raise Unsupported("repeat_interleave by a tensor, or over all dimensions")
    return _repeated(call.b, call.x, dim % len(call.x.shape), times, each=True)


def _upsample_nearest(call: Call) -> Val:
    x, rank = call.x, len(call.x.shape) - 2
    for dim in range(2, 2 + rank):
        times, rest = divmod(call.out.shape[dim], x.shape[dim])
        if rest:
            raise Unsupported("upsampling by a fraction")
        x = _repeated(call.b, x, dim, times, each=True)
    return x


_CUBIC = -0.75


def _upsample(call: Call) -> Val:
    """Linear or cubic interpolation between neighbours, one dimension at a time; outside, the border is repeated."""
    x, b, cubic = call.x, call.b, "cubic" in call.op
    rank, corners = len(x.shape) - 2, bool(call.arg(2))
    factors = call.arg(3, "scale_factors")
    factors = factors if isinstance(factors, tuple) else tuple(call.arg(3 + dim) for dim in range(rank))
    for dim, factor in enumerate(factors or (None,) * rank, 2):
        at = b.add(
            "iota", (), "int64", (call.out.shape[dim],), dim=0, start=0, step=1, sizes=(call.sizes[dim],)
        )
        if corners:
            scale = b.map("div", b.count(x, (dim,), 1.0), b.map("maximum", b.count(at, (0,), 1.0), 1.0))
            where = b.map("mul", at, scale, dtype="float32")
        else:
            scale = 1.0 / factor if factor else b.map("div", b.count(x, (dim,)), b.count(at, (0,)))
            where = b.map("sub", b.map("mul", b.map("add", at, 0.5, dtype="float32"), scale), 0.5)
            where = where if cubic else b.map("maximum", where, 0.0)
        x = _between(b, x, dim, where, cubic)
    return x


def _between(b: Builder, x: Val, dim: int, where: Val, cubic: bool) -> Val:
    """Interpolate along one dimension at fractional places."""
    before, after = (2, 2) if cubic else (0, 1)
    shape = tuple(size + before + after if at == dim else size for at, size in enumerate(x.shape))
    edges = tuple(before if at == dim else 0 for at in range(len(shape)))
    wide = b.add("border", (x,), x.dtype, shape, before=edges, how="replicate")
    low = b.map("floor", where)
    part = b.map("sub", where, low)
    rest = b.map("sub", 1.0, part)
    first = b.add("alias", (low,), "int64", low.shape)
    weights = [
        _far(b, b.map("add", part, 1.0)),
        _near(b, part),
        _near(b, rest),
        _far(b, b.map("add", rest, 1.0)),
    ]
    total: Val | None = None
    for tap, weight in enumerate(weights if cubic else (rest, part)):
        place = b.map("add", first, tap + 1 if cubic else tap)
        shape = (*x.shape[:dim], where.shape[0], *x.shape[dim + 1 :])
        seen = b.add("take", (wide, place), x.dtype, shape, dim=dim)
        term = b.map("mul", seen, b.view(weight, (where.shape[0], *(1,) * (len(shape) - dim - 1))))
        total = term if total is None else b.map("add", total, term)
    assert total is not None
    return total


def _near(b: Builder, x: Val) -> Val:
    """The cubic weight of a neighbour at a distance of at most one (Keys, 1981)."""
    inner = b.map("mul", b.map("sub", b.map("mul", x, _CUBIC + 2), _CUBIC + 3), b.map("mul", x, x))
    return b.map("add", inner, 1.0)


def _far(b: Builder, x: Val) -> Val:
    """The cubic weight at a distance between one and two."""
    inner = b.map("mul", b.map("sub", b.map("mul", x, _CUBIC), 5 * _CUBIC), x)
    return b.map("sub", b.map("mul", b.map("add", inner, 8 * _CUBIC), x), 4 * _CUBIC)


def _roll(call: Call) -> Val:
    shifts, dims = call.arg(1, "shifts"), call.arg(2, "dims", ())
    shifts, dims = (one if isinstance(one, tuple) else (one,) for one in (shifts, dims))
    if not dims:
        raise Unsupported("roll over all elements")
    x = call.x
    for shift, dim in zip(shifts, dims, strict=True):
        x = call.b.add("roll", (x,), x.dtype, x.shape, dim=dim % len(x.shape), shift=shift)
    return x


def _pixels(call: Call) -> Val:
    """Channels to pixels, or back."""
    (b, c, h, w), r = call.x.shape, call.arg(1)
    if call.op == "pixel_shuffle":
        shape, order = (b, c // (r * r), r, r, h, w), (0, 1, 4, 2, 5, 3)
    else:
        shape, order = (b, c, h // r, r, w // r, r), (0, 1, 3, 5, 2, 4)
    return call.b.view(call.b.permute(call.b.view(call.x, shape), order), call.out.shape)


def _channel_shuffle(call: Call) -> Val:
    x, groups = call.x, call.arg(1)
    b, c, *rest = x.shape
    made = call.b.view(x, (b, groups, c // groups, *rest), fixed=(1,))
    made = call.b.permute(made, (0, 2, 1, *range(3, 3 + len(rest))))
    return call.b.view(made, x.shape, like=x)


def before(call: Call) -> tuple[int, ...]:
    """What a padding puts before each dimension; its pads are pairs, the last dimension first."""
    low = call.arg(1)[::2]
    return (*(0,) * (len(call.x.shape) - len(low)), *reversed(low))


def _border(call: Call) -> Val:
    """Reflection and replication padding."""
    how = "reflect" if call.op.startswith("reflection") else "replicate"
    return call.b.add("border", (call.x,), call.x.dtype, call.out.shape, before=before(call), how=how)


def _select_scatter(call: Call) -> Val:
    x, part, dim = call.x, call.arg(1), call.arg(2) % len(call.x.shape)
    place = call.arg(3) % x.shape[dim]
    at = call.b.add("iota", (), "int64", x.shape, dim=dim, start=0, step=1)
    shape = (*part.shape[:dim], 1, *part.shape[dim:])
    return call.b.map(
        "where", call.b.map("eq", at, place, dtype="bool"), call.b.view(part, shape), x, dtype=x.dtype
    )


def _index(call: Call) -> Val:
    """`x[:, index]`: index tensors for adjacent dimensions."""
    x, indices = call.x, call.arg(1)
    given = [(dim, one) for dim, one in enumerate(indices) if one is not None]
    if any(one.dtype == "bool" for _, one in given) or given[-1][0] - given[0][0] >= len(given):
        raise Unsupported("index by masks, or of dimensions apart")
    places = (one for _, one in given)
    return call.b.add("take", (x, *places), call.out.dtype, call.out.shape, dim=given[0][0])


def _unfold(call: Call) -> Val:
    x, dim = call.x, call.arg(1) % len(call.x.shape)
    return call.b.add("unfold", (x,), x.dtype, call.out.shape, dim=dim, size=call.arg(2), step=call.arg(3))


def _columns(call: Call) -> Val:
    """`im2col`: the inputs of each tap of a window, one column per place."""
    x, (kernel, dilation, padding, stride) = call.x, call.args[1:5]
    sides = zip(x.shape[2:], kernel, dilation, padding, stride, strict=True)
    out = tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, d, p, s in sides)
    return call.b.view(patches(call.b, x, kernel, out, (stride, padding, dilation)), call.out.shape)


def _take_flat(call: Call) -> Val:
    flat = call.b.view(call.x, (math.prod(call.x.shape),))
    return call.b.add("take", (flat, call.arg(1)), call.out.dtype, call.out.shape, dim=0)


def _unbind(call: Call) -> tuple[Val, ...]:
    x, dim = call.x, call.arg(1, "dim", 0) % len(call.x.shape)
    parts = [slice_of(call.b, x, dim, at, 1) for at in range(x.shape[dim])]
    return tuple(call.b.view(one, call.out.shape) for one in parts)


MOVES: dict[str, Callable[[Call], Any]] = {
    "repeat": _repeat, "repeat_interleave": _repeat_interleave, "roll": _roll, "pixel_shuffle": _pixels,
    "pixel_unshuffle": _pixels, "channel_shuffle": _channel_shuffle, "select_scatter": _select_scatter,
    "unfold": _unfold, "im2col": _columns, **dict.fromkeys(["upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d"], _upsample),
    "index": _index, "_unsafe_index": _index, "take": _take_flat, "unbind": _unbind,
    **dict.fromkeys(["upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"], _upsample_nearest),
    **dict.fromkeys(["reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
                     "replication_pad3d"], _border),
}  # fmt: skip
