"""Values as large as their weights are small: what a kernel may not leave out though a softmax gives it next to nothing.

All rows of the first input are near one row, and so are those of the second, up to a factor: the first quarter of them scores
high, the others lie below by what is drawn. Where the reference is linear in another input, its rows at
these places are multiplied by as much as their weight lies below the others', which is measured on the reference.

Finds nothing where the scores come of other inputs, or of one with its axes in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from kernelwright.verify.reference.degenerate import is_usual
from kernelwright.verify.structures import convert, flatten

_TOP = 40.0
"""Scores of the first quarter, where they are divided by the root of their terms."""
_BELOW = (0.2, 0.8)
"""Share of that which the others have."""
_FAINT, _LEAST = 1e-2, 1e-18
"""Weights, relative to the others', between which there is something to make up for."""
_JITTER = 1e-3


def outweigh(inputs: Any, call: Callable[[object], list[torch.Tensor]], seed: int) -> Any:
    """The inputs so changed; None where the reference (`call`, in double precision) has nothing of the kind. Raises what it raises."""
    given = [tensor for tensor in flatten(inputs) if is_usual(tensor) and tensor.dtype == torch.float32]
    if len(given) < 3 or given[0].ndim < 2 or given[0].shape[-1] != given[1].shape[-1]:
        return None
    generator = torch.Generator().manual_seed(seed)

    def with_those(made: dict[int, torch.Tensor]) -> Any:
        return convert(inputs, lambda tensor: made.get(id(tensor), tensor))

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
        if not _close(call(with_those({id(values): 2.0 * values})), doubled):
            continue
        for axis in axes:
            extent = given[1].shape[axis]
            late = (torch.arange(extent) >= extent // 4).view(-1, *(1,) * (-1 - axis))
            scores = _scores(given[0], given[1], late, axis, generator)
            weights = []
            for some in (late, ~late):
                made = call(with_those({**scores, id(values): torch.where(some, values.abs(), 0.0)}))
                weights.append(torch.cat([one.abs().reshape(-1) for one in made]))
            ratio = float((weights[0] / weights[1]).nan_to_num(0.0, 0.0, 0.0).median())
            if _LEAST < ratio < _FAINT:
                return with_those({**scores, id(values): torch.where(late, values / ratio, values)})
    return None


def _scores(
    first: torch.Tensor, second: torch.Tensor, late: torch.Tensor, axis: int, generator: torch.Generator
) -> dict[int, torch.Tensor]:
    width = first.shape[-1]
    row = 0.5 + torch.rand(width, generator=generator)
    row *= (_TOP * width**0.5 / float(row.square().sum())) ** 0.5

    def near(tensor: torch.Tensor) -> torch.Tensor:
        return row * (1.0 + _JITTER * torch.randn(tensor.shape, generator=generator))

    low, high = _BELOW
    share = low + (high - low) * torch.rand((), generator=generator)
    return {id(first): near(first), id(second): near(second) * torch.where(late, share, 1.0)}


def _close(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    pairs = zip(one, other, strict=True)
    return all(torch.allclose(made.double(), right.double(), rtol=1e-6) for made, right in pairs)
