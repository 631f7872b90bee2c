"""Values that are as large as their weights are small, so that a kernel may not drop what a softmax weighs at almost nothing.

All rows of the first input are near one row, and those of the second near a multiple of it: the first quarter of them scores
high, the others lower by a drawn amount. If the reference is linear in another input, its rows at the low-scoring places
are scaled up by as much as their weights lie below the others', measured on the reference.

In half precision scores have too few digits for that. There the first row is a *sink*: its score exceeds all others by
somewhat more than the logarithm of their number, so each weight is almost nothing, their sum is not, and values make up.

Finds nothing if scores come from other inputs, or from one with its axes in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.verify.reference.degenerate import is_usual
from kernelwright.verify.structures import convert, flatten

_TOP = 40.0
"""Scores of the first quarter, if they are divided by the root of the number of terms."""
_BELOW = (0.2, 0.8)
"""The others' scores as a share of that."""
_FAINT, _LEAST = 1e-2, 1e-18
"""Weights relative to the others' between which values are scaled up."""
_JITTER = 1e-3
_SINK, _ABOVE = 12.0, (3.0, 5.0)
"""The sink's score in the trial, and how far it is then put above the logarithm of the others' number."""
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_MOST_SHARE = 4.0
"""The most that the sink's key is scaled from the trial."""


def outweigh(inputs: Any, call: Callable[[object], list[torch.Tensor]], seed: int) -> Any:
    """The inputs changed this way; None if the reference (`call`, in fp64) has no such weights. Raises what it raises."""
    given = [tensor for tensor in flatten(inputs) if is_usual(tensor) and tensor.dtype in _DTYPES]
    if len(given) < 3 or given[0].ndim < 2 or given[0].shape[-1] != given[1].shape[-1]:
        return None
    generator = torch.Generator().manual_seed(seed)
    doubled: list[torch.Tensor] = []
    for values in given[2:]:
        axes = [
            axis
            for axis in range(-2, -min(values.ndim, given[1].ndim) - 1, -1)
            if values.shape[axis] == given[1].shape[axis] >= 4
        ]
        if not axes:
            continue
        doubled = doubled or [2.0 * one for one in call(inputs)]
        if not _close(call(_with(inputs, {id(values): 2.0 * values.double()})), doubled):
            continue
        for axis in axes:
            change = _far_below if given[0].dtype == torch.float32 else _below_a_sink
            made = change(inputs, call, (given[0], given[1], values), axis, generator)
            if made is not None:
                return made
    return None


_Given = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""The two inputs that make the scores, and the values."""


def _with(inputs: Any, made: dict[int, torch.Tensor]) -> Any:
    return convert(inputs, lambda tensor: made.get(id(tensor), tensor))


def _far_below(
    inputs: Any,
    call: Callable[[object], list[torch.Tensor]],
    given: _Given,
    axis: int,
    generator: torch.Generator,
) -> Any:
    first, second, values = given
    extent, (low, high) = second.shape[axis], _BELOW
    late = (torch.arange(extent) >= extent // 4).view(-1, *(1,) * (-1 - axis))
    share = low + (high - low) * torch.rand((), generator=generator)
    near = _near_one_row(first.shape[-1], _TOP, generator)
    scores = {id(first): near(first), id(second): near(second) * torch.where(late, share, 1.0)}
    weighed = [{**scores, id(values): torch.where(some, values.abs(), 0.0)} for some in (late, ~late)]
    ratio = _median_ratio(inputs, call, weighed)
    if not _LEAST < ratio < _FAINT:
        return None
    return _with(inputs, {**scores, id(values): torch.where(late, values / ratio, values)})


def _below_a_sink(
    inputs: Any,
    call: Callable[[object], list[torch.Tensor]],
    given: _Given,
    axis: int,
    generator: torch.Generator,
) -> Any:
    first, second, values = given
    others = second.shape[axis] - 1
    late = (torch.arange(others + 1) > 0).view(-1, *(1,) * (-1 - axis))
    near = _near_one_row(first.shape[-1], _SINK, generator)
    query, key = near(first), near(second)

    def scores(share: float) -> dict[int, torch.Tensor]:
        keys = key * torch.where(late, _JITTER, share)
        return {id(first): query.to(first.dtype), id(second): keys.to(second.dtype)}

    ones = [{**scores(1.0), id(values): some.expand(values.shape).double()} for some in (~late, late)]
    ratio = _median_ratio(inputs, call, ones)
    height = math.log(ratio * others) if 0.0 < ratio < math.inf else 0.0
    low, high = _ABOVE
    above = low + (high - low) * float(torch.rand((), generator=generator))
    wanted = math.log(others) + above
    if wanted > _MOST_SHARE * height:
        return None
    number = (0.5 + torch.rand(values.shape, generator=generator)) * (1.0 + math.exp(above))
    weighed = torch.where(late, number, values).to(values.dtype)
    return _with(inputs, {**scores(wanted / height), id(values): weighed})


def _median_ratio(
    inputs: Any, call: Callable[[object], list[torch.Tensor]], changes: Sequence[dict[int, torch.Tensor]]
) -> float:
    """The median, over elements of outputs, of their size under the first of two changes over that under the second."""
    one, other = (
        torch.cat([made.abs().reshape(-1) for made in call(_with(inputs, change))]) for change in changes
    )
    return float((one / other).nan_to_num(0.0, 0.0, 0.0).median())


def _near_one_row(
    width: int, top: float, generator: torch.Generator
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Returns a function to make tensors with all rows near one row, whose length gives two of them the scaled score `top`."""
    row = 0.5 + torch.rand(width, generator=generator)
    row *= (top * width**0.5 / float(row.square().sum())) ** 0.5
    return lambda tensor: row * (1.0 + _JITTER * torch.randn(tensor.shape, generator=generator))


def _close(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(torch.allclose(made.double(), right.double(), rtol=1e-6) for made, right in pairs)
