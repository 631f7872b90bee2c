"""Triton's reductions and scans over `Exact` data. Sums and maxima are computed at once; a kernel's own combine function is
applied to pairs of neighbours (reduction) or from the first lane to the last (scan), for all other axes together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.values import Exact, NotExact

Data = Exact | np.ndarray
Fold: TypeAlias = interpreter.ReduceOps | interpreter.ScanOps
Numbers = Callable[[interpreter.TensorHandle], Any]
"""Returns the data of a handle."""
Combine = Callable[..., Any]
"""A kernel's combine function, which takes the lanes of two parts."""
_MOST = 4096
"""Most lanes of a scan by a kernel's own function."""


def _tensor(value: Data, dtype: tl.dtype) -> tl.tensor:
    """A Triton tensor of this value; a scalar if it has no axes."""
    if value.shape == ():
        value = value.reshape(1)
        return tl.core.tensor(interpreter.TensorHandle(value, dtype.scalar), dtype.scalar)
    kind = tl.block_type(dtype.scalar, list(value.shape))
    return tl.core.tensor(interpreter.TensorHandle(value, dtype.scalar), kind)


def _take(value: Data, axis: int, lane: int | np.ndarray) -> Data:
    return value.taken(lane, axis) if isinstance(value, Exact) else np.take(value, lane, axis=axis)


def _lanes(
    values: Sequence[Data], axis: int, count: int, combine: Combine, dtypes: Sequence[tl.dtype]
) -> list[tuple[tl.tensor, ...]]:
    """The fold of every prefix: for each lane a tuple of data."""
    if count > _MOST:
        raise NotExact("a scan of many lanes by a function of the kernel's own")
    state = tuple(_tensor(_take(value, axis, 0), dtype) for value, dtype in zip(values, dtypes, strict=True))
    found = [state]
    for lane in range(1, count):
        following = (
            _tensor(_take(value, axis, lane), dtype) for value, dtype in zip(values, dtypes, strict=True)
        )
        made = combine(*state, *following)
        state = made if isinstance(made, tuple) else (made,)
        found.append(tuple(state))
    return found


def _tree(values: Sequence[Data], axis: int, combine: Combine, dtypes: Sequence[tl.dtype]) -> list[Data]:
    """The fold of all lanes, neighbours first, so `combine` must be associative."""
    now = list(values)
    while (count := now[0].shape[axis]) > 1:
        even = [_take(one, axis, np.arange(0, count - 1, 2)) for one in now]
        odd = [_take(one, axis, np.arange(1, count, 2)) for one in now]
        given = [_tensor(one, dtype) for part in (even, odd) for one, dtype in zip(part, dtypes, strict=True)]
        made = combine(*given)
        data = [one.handle.data for one in (made if isinstance(made, tuple) else (made,))]
        if count % 2:
            data = [
                _chain(one, _take(rest, axis, np.arange(count - 1, count)), axis)
                for one, rest in zip(data, now, strict=True)
            ]
        now = data
    return [_take(one, axis, 0) for one in now]


def _chain(one: Data, other: Data, axis: int) -> Data:
    if isinstance(one, Exact) and isinstance(other, Exact):
        levels = min(one.levels, other.levels)
        planes = np.concatenate([one.planes[:levels], other.planes[:levels]], axis=axis + 1)
        return Exact(planes, one.special or other.special, None, one.kind)
    if isinstance(one, Exact) or isinstance(other, Exact):
        raise NotExact("a fold whose lanes are data in part")
    return np.concatenate([one, other], axis=axis)


def apply_reduce(calculator: Calculator, fold: Fold, values: Sequence[tl.tensor], data: Numbers) -> Any:
    """Like `ReduceOps.apply_impl`."""
    axis = fold.axis
    given = [data(value.handle) for value in values]
    shape = given[0].shape
    if axis is None:
        given, axis = [one.reshape(-1) for one in given], 0
    standard = tl.standard
    combine = fold.combine_fn
    simple = {
        standard._sum_combine: "sum",
        standard._elementwise_max: "maximum_over",
        standard._elementwise_min: "minimum_over",
    }
    if combine in simple:
        made = [getattr(calculator, simple[combine])(given[0], axis)]
    else:
        made = _tree(given, axis, combine.fn, [value.dtype for value in values])
    if fold.keep_dims:
        kept = tuple(1 if fold.axis in (None, place) else extent for place, extent in enumerate(shape))
        made = [one.reshape(kept) for one in made]
    found = [_tensor(one, value.dtype) for one, value in zip(made, values, strict=False)]
    return found[0] if combine in simple else found


def apply_scan(calculator: Calculator, fold: Fold, values: Sequence[tl.tensor], data: Numbers) -> object:
    """Like `ScanOps.apply_impl`."""
    axis = fold.axis
    given = [calculator.number(data(value.handle)) for value in values]
    if fold.reverse:
        given = [one.mapped(lambda planes: np.flip(planes, axis + 1)) for one in given]
    standard = tl.standard
    simple = {standard._sum_combine: "running_sum", standard._prod_combine: "running_product"}
    if fold.combine_fn in simple:
        made = [getattr(calculator, simple[fold.combine_fn])(given[0], axis)]
    else:
        shape = given[0].shape[:axis] + given[0].shape[axis + 1 :]
        dtypes = [value.dtype for value in values]
        steps = _lanes(given, axis, given[0].shape[axis], fold.combine_fn.fn, dtypes)
        made = []
        for place in range(len(given)):
            parts = [calculator.number(step[place].handle.data.reshape(shape)) for step in steps]
            levels = min(part.levels for part in parts)
            planes = np.stack([part.planes[:levels] for part in parts], axis=axis + 1)
            made.append(Exact(planes, any(part.special for part in parts), None, parts[0].kind))
    if fold.reverse:
        made = [one.mapped(lambda planes: np.flip(planes, axis + 1)) for one in made]
    return [_tensor(one, value.dtype) for one, value in zip(made, values, strict=True)]
