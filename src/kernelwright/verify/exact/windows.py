"""Convolutions and pools on `Exact` arrays: loops of products and sums over the places of a window.

Not covered: pools with `ceil_mode`, and pools of arrays with infinite elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np

from kernelwright.verify.exact.moves import Operand, exact
from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.values import BELOW, Exact, NotExact

Window = int | Sequence[int]
"""One number per axis, or one for all axes."""


def _each(value: Window, count: int) -> list[int]:
    given = [value] if isinstance(value, int) else list(value)
    return given * count if len(given) == 1 else given


def _pad(x: Exact, low: Sequence[int], high: Sequence[int], fill: int = 0) -> Exact:
    """Pad the last axes by `low` elements before and `high` after."""
    outer = x.planes.ndim - len(low)
    widths = [(0, 0)] * outer + list(zip(low, high, strict=True))
    planes = np.pad(x.planes, widths, constant_values=fill)
    return Exact(planes, x.special or (fill < 0 and any((*low, *high))))


def _places(
    x: Exact, kernel: Sequence[int], stride: Sequence[int], dilation: Sequence[int], out: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Exact]]:
    """For each place of the window, the elements there for every output."""
    for place in itertools.product(*map(range, kernel)):
        slices = tuple(
            slice(at * d, at * d + (count - 1) * s + 1, s)
            for at, d, s, count in zip(place, dilation, stride, out, strict=True)
        )
        yield place, x.at(..., *slices)


def convolve(
    c: Calculator, x: Operand, weight: Operand, bias: Operand | None, stride: Window, padding: Window, dilation: Window,
    transposed: bool, output_padding: Window, groups: int,
) -> Exact:  # fmt: skip
    """aten.convolution."""
    a, w = exact(c, x).plain(), exact(c, weight).plain()
    if a.special or w.special:
        raise NotExact("a convolution of infinite or undefined elements")
    dims = w.ndim - 2
    stride, padding, dilation = (_each(one, dims) for one in (stride, padding, dilation))
    kernel = w.shape[2:]
    if transposed:
        extra = _each(output_padding, dims)
        a, w = _spread(a, stride), _turned(w, groups)
        low = [d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True)]
        high = [before + more for before, more in zip(low, extra, strict=True)]
        if min((*low, *high), default=0) < 0:
            raise NotExact("a transposed convolution that is cut")
        stride = [1] * dims
    else:
        low = high = padding
    a = _pad(a, low, high)
    out = [
        (n - d * (k - 1) - 1) // s + 1
        for n, d, k, s in zip(a.shape[2:], dilation, kernel, stride, strict=True)
    ]
    batch, per_group = a.shape[0], w.shape[1]
    made: Exact | None = None
    rows = w.reshape(groups, w.shape[0] // groups, per_group, math.prod(kernel))
    for number, (_, there) in enumerate(_places(a, kernel, stride, dilation, out)):
        columns = there.reshape(batch, groups, per_group, math.prod(out))
        factor = rows.at(None, ..., number)
        part = c.matmul(factor, columns)
        made = part if made is None else c.add(made, part)
    assert made is not None
    made = made.reshape(batch, w.shape[0], *out)
    return made if bias is None else c.add(made, exact(c, bias).plain().reshape(1, w.shape[0], *(1,) * dims))


def _spread(a: Exact, stride: Sequence[int]) -> Exact:
    """Insert zeros between elements (stride - 1 of them)."""
    shape = [(n - 1) * s + 1 for n, s in zip(a.shape[2:], stride, strict=True)]
    planes = np.zeros((*a.planes.shape[:3], *shape), dtype=np.int64)
    planes[(slice(None), slice(None), slice(None), *(slice(None, None, s) for s in stride))] = a.planes
    return Exact(planes)


def _turned(w: Exact, groups: int) -> Exact:
    """Weights of a transposed convolution, as those of the equivalent ordinary one."""
    inputs, outputs, *kernel = w.shape
    flipped = w.planes[(slice(None), slice(None), slice(None), *(slice(None, None, -1) for _ in kernel))]
    split = flipped.reshape(w.levels, groups, inputs // groups, outputs, *kernel).swapaxes(2, 3)
    return Exact(np.ascontiguousarray(split).reshape(w.levels, groups * outputs, inputs // groups, *kernel))


def _pool(
    x: Exact, kernel: Window, stride: Window | None, padding: Window, dilation: Window, fill: int
) -> Exact:
    """For each output the elements of its window, along a new last axis."""
    dims = len(_each(kernel, 1)) if isinstance(kernel, list | tuple) else 1
    kernel = _each(kernel, dims)
    stride = _each(stride, dims) if stride not in (None, []) else kernel
    padding, dilation = _each(padding, dims), _each(dilation, dims)
    padded = _pad(x.plain(), padding, padding, fill)
    inner = padded.shape[padded.ndim - dims :]
    out = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(inner, dilation, kernel, stride, strict=True)]
    found = [there.planes for _, there in _places(padded, kernel, stride, dilation, out)]
    return Exact(np.stack(found, axis=-1), padded.special)


def max_pool(
    c: Calculator,
    x: Operand,
    kernel: Window,
    stride: Window | None = None,
    padding: Window = 0,
    dilation: Window = 1,
    ceil_mode: bool = False,
) -> Exact:
    """aten.max_pool*d, values only."""
    if ceil_mode:
        raise NotExact("a pool with ceil_mode")
    windows = _pool(exact(c, x), kernel, stride, padding, dilation, BELOW)
    return c.maximum_over(windows, windows.ndim - 1)


def average_pool(
    c: Calculator, x: Operand, kernel: Window, stride: Window | None = None, padding: Window = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Exact:  # fmt: skip
    """aten.avg_pool*d."""
    value = exact(c, x)
    if ceil_mode or value.special:
        raise NotExact("a pool with ceil_mode or of infinite elements")
    windows = _pool(value, kernel, stride, padding, 1, 0)
    total = c.sum(windows, windows.ndim - 1)
    if divisor_override or count_include_pad or not any(_each(padding, 1)):
        return c.multiply(total, 1.0 / (divisor_override or windows.shape[-1]))
    ones = Exact(np.ones((1, *value.shape), dtype=np.int64))
    counts = _pool(ones, kernel, stride, padding, 1, 0).planes[0].sum(axis=-1)
    return c.divide(total, counts)
