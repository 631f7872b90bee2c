"""What a kernel promises its compiler about a block of numbers, compared with the numbers.

`tl.multiple_of`, `tl.max_contiguous` and `tl.max_constancy` let the compiler load several elements by one instruction.
A promise that is false for some lane is harmless if the compiler does not use it, and otherwise anything may happen. So a
false one is taken at its word: `as_promised` gives the promised numbers, and the results tell whether that matters. (Many
published kernels promise contiguous row indices that wrap at the end of a matrix, and never store what the last lanes
load.)

For pointers, promises count bytes, and only single pointers are checked. Not covered: blocks of pointers.
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
"""The most elements that one instruction moves: shorter promised runs are used up to this."""


def units(values: object, dimensions: int) -> list[int]:
    """The promised number for each axis."""
    given = values if isinstance(values, list | tuple | tl.tuple) else [values]
    plain = [one.value if isinstance(one, tl.constexpr) else one for one in given]
    return [one if isinstance(one, int) else 1 for one in plain][: max(dimensions, 1)]


def as_promised(kind: Kind, promised: Sequence[int], data: np.ndarray) -> np.ndarray:
    """`data` as promised; `data` itself if the promise is true."""
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
    """By lane, the remainder by `unit` of the first number of its run of consecutive numbers."""
    if data.size == 1 or axis >= data.ndim:
        return data % data.dtype.type(unit)
    moved = np.moveaxis(data, axis, -1)
    starts = np.ones(moved.shape, dtype=bool)
    starts[..., 1:] = moved[..., 1:] != moved[..., :-1] + 1
    places = np.maximum.accumulate(np.where(starts, np.arange(moved.shape[-1]), 0), axis=-1)
    left = np.take_along_axis(moved, places, axis=-1) % moved.dtype.type(unit)
    return np.moveaxis(left, -1, axis)
