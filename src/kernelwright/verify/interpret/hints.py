"""What a kernel promises its compiler of a block of numbers, held against the numbers.

`tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy` let the compiler load several elements by one instruction.
A promise that is false of some lane does no harm where the compiler makes nothing of it, and anything where it does. So a
false one is taken at its word: `as_promised` gives the numbers that the promise says. Whether that matters is for the values
to tell (a row index that wraps at the end of a matrix is promised to be contiguous in many published kernels, and
what its last lanes load is never stored).

Of pointers single ones are looked at: a promise counts bytes there. Not covered: promises about blocks of pointers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import triton.language as tl

Kind = Literal["divisibility", "contiguity", "constancy"]
NAMES: dict[Kind, str] = {
    "divisibility": "multiple_of",
    "contiguity": "max_contiguous",
    "constancy": "max_constancy",
}
_WIDEST = 16
"""Elements that one instruction moves at most: longer runs are promised, and shorter ones made use of."""


def units(values: object, dimensions: int) -> list[int]:
    """The promised number for each axis."""
    given = values if isinstance(values, list | tuple | tl.tuple) else [values]
    plain = [one.value if isinstance(one, tl.constexpr) else one for one in given]
    return [one if isinstance(one, int) else 1 for one in plain][: max(dimensions, 1)]


def as_promised(kind: Kind, promised: Sequence[int], data: np.ndarray) -> np.ndarray:
    """What `data` would have to be: `data` itself where the promise is true."""
    made = data
    for axis, unit in enumerate(promised):
        if unit > 1 and (axis < data.ndim or data.size == 1):
            made = _along(kind, unit, made, axis)
    return data if made is data or np.array_equal(made, data) else made


def _along(kind: Kind, unit: int, data: np.ndarray, axis: int) -> np.ndarray:
    if data.dtype.kind not in "iu":
        return data
    if kind == "divisibility":
        return data - _remainder_of_runs(data, unit, axis)
    extent = data.shape[axis] if axis < data.ndim else 1
    group = min(unit, _WIDEST, extent)
    if group < 2 or extent % group:
        return data
    lanes = np.arange(extent)
    first = np.take(data, lanes - lanes % group, axis=axis)
    if kind == "constancy":
        return first
    shape = [1] * data.ndim
    shape[axis] = extent
    return first + (lanes % group).astype(data.dtype).reshape(shape)


def _remainder_of_runs(data: np.ndarray, unit: int, axis: int) -> np.ndarray:
    """By lane, what the first number of its run (each one more than the last) leaves when divided by `unit`."""
    if data.size == 1 or axis >= data.ndim:
        return data % data.dtype.type(unit)
    moved = np.moveaxis(data, axis, -1)
    starts = np.ones(moved.shape, dtype=bool)
    starts[..., 1:] = moved[..., 1:] != moved[..., :-1] + 1
    places = np.maximum.accumulate(np.where(starts, np.arange(moved.shape[-1]), 0), axis=-1)
    left = np.take_along_axis(moved, places, axis=-1) % moved.dtype.type(unit)
    return np.moveaxis(left, -1, axis)
