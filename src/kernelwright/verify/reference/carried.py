"""Inputs on which what a reference carries from step to step goes far.

A peak that is held, a borrow, a state under gates: on drawn data later elements soon outweigh the first one, and a kernel may look
back over a few blocks. Where a reference has as many rounds (`settling.period`) as an axis of its inputs is long, we change the first
element of each instance, and count the elements of outputs that follow. Tried are quiet inputs behind it (by up to 10^6), numbers drawn
between 0 and 1 near 1, numbers of both signs far on one side, integers that are all the smallest or the largest, and smaller numbers along a diagonal, for each input by
itself. Each instance gets the inputs on which its first element reaches furthest. All are tried in one call, as instances side by side.

Not found: references without independent instances; what only several inputs of other forms, or weights, let go far.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from kernelwright.verify.reference.distributions import orders
from kernelwright.verify.reference.operators import Operators
from kernelwright.verify.reference.settling import beside, instances_axis, joined, lines, period
from kernelwright.verify.reference.special_values import ROUNDS
from kernelwright.verify.structures import convert, flatten, with_changed

KIND = "carried"
_MOST_OPERATORS, _TRIED, _SPREAD = 16384, 16, 6.0
_FOLLOWS, _SMALL = 0.01, 0.01
"""An element has changed if it moved by this share of itself; what is on a diagonal is smaller by this factor."""
_FAR = 10.0
"""Numbers of both signs are moved to one side by as many of their standard deviations."""
_FURTHER = 1.5
"""First elements must reach this many times as many elements as drawn ones."""


def carried(
    inputs: object, single: Callable[[object], list[torch.Tensor]], operators: Operators, seed: int
) -> Any:
    """Inputs on which first elements reach far; None if there is nothing to find, or nothing is found. `single`: the reference, which
    may raise."""
    _, _, count = period(operators) if len(operators) <= _MOST_OPERATORS else (0, 0, 0)
    given = flatten(inputs)
    axis = instances_axis(given)
    if count < ROUNDS or axis is None:
        return None
    generator = torch.Generator().manual_seed(seed)
    places = [place for place, one in enumerate(given) if _has_steps(one, axis, count)]
    tried = [inputs, *_moved(inputs, places)][:_TRIED]
    tried += [_changed(inputs, places, axis, generator) for _ in range(_TRIED - len(tried))]
    spiked = [
        [
            with_changed(one, place, functools.partial(_spiked, drawn=given[place], axis=axis))
            for place in places[:2]
        ]
        for one in tried
    ]
    if not places:
        return None
    extent = next(one.shape[axis] for one in given if one.numel() > 1)
    together = [one for some, own in zip(spiked, tried, strict=True) for one in (own, *some)]
    reached = torch.zeros(_TRIED, len(spiked[0]), extent)
    for output in single(beside(together, axis)):
        found = lines(output.unsqueeze(0), axis, extent * len(together))
        if found is not None:
            apart = found.reshape(_TRIED, -1, extent, found.shape[-1]).double()
            moved = (apart[:, 1:] - apart[:, :1]).abs() > _FOLLOWS * apart[:, 1:].abs()
            reached += (moved & apart.isfinite().all(-1, keepdim=True).all(1, keepdim=True)).sum(-1)
    flat = reached.flatten(0, 1)
    if float(flat.amax(0).mean()) < max(_FURTHER * float(reached[0].amax(0).mean()), ROUNDS):
        return None
    chosen = (flat + torch.rand(flat.shape, generator=generator)).argmax(0)  # ties by chance
    best: Any = inputs
    for number, one in enumerate(one for some in spiked for one in some):
        best = joined(best, one, chosen == number, axis)
    return best


def _has_steps(tensor: torch.Tensor, axis: int, count: int) -> bool:
    if tensor.ndim < 2 or tensor.dtype == torch.bool or tensor.is_complex() or orders(tensor):
        return False
    if tensor.is_floating_point() and bool((tensor == tensor.round()).all()):  # masks, classes, counts
        return False
    return any(
        abs(extent - count) < 2 for number, extent in enumerate(tensor.shape) if number != axis % tensor.ndim
    )


def _first(tensor: torch.Tensor, axis: int) -> torch.Tensor:
    """Whether an element is the first of its instance."""
    mask = torch.zeros(tensor.shape, dtype=torch.bool)
    mask.movedim(axis, 0).flatten(1)[:, 0] = True
    return mask


def _spiked(tensor: torch.Tensor, drawn: torch.Tensor, axis: int) -> torch.Tensor:
    """The largest number drawn as the first of each instance; the smallest where that is nearer to the largest."""
    low, high = drawn.aminmax()
    raised = torch.where(tensor - low <= high - tensor, high, low)
    return torch.where(_first(tensor, axis), raised, tensor)


def _moved(inputs: object, places: list[int]) -> Iterator[object]:
    """The inputs with one of both signs moved far to one side: logits of gates that keep, or drop, nearly all."""
    for place in places:
        own = flatten(inputs)[place]
        if own.is_floating_point() and float(own.min()) < 0 < float(own.max()):
            for by in (_FAR, -_FAR):
                yield with_changed(inputs, place, lambda one, by=by: one + by * float(one.double().std()))  # type: ignore[misc]


def _changed(inputs: object, places: list[int], axis: int, generator: torch.Generator) -> object:
    given = flatten(inputs)
    numbers: Iterator[int] = iter(range(len(given)))
    whole = [given[place] for place in places if not given[place].is_floating_point()]
    least, most = (
        min((int(one.min()) for one in whole), default=0),
        max((int(one.max()) for one in whole), default=0),
    )

    def change(tensor: torch.Tensor) -> torch.Tensor:
        way, by = (torch.rand(2, generator=generator, dtype=torch.float64)).tolist()
        if next(numbers) not in places or way < 0.25:
            return tensor
        if not tensor.is_floating_point():
            return torch.full_like(tensor, least if way < 0.65 else most)
        if way < 0.5 and 0 <= float(tensor.min()) <= float(tensor.max()) <= 1:
            return (1 - 10.0 ** (-_SPREAD / 2 * by) * (1 - tensor.double())).to(tensor)
        if way < 0.5 and tensor.ndim > 2:
            steps, extent = tensor.shape[-2:]
            along = torch.arange(extent) == torch.arange(steps).unsqueeze(1) % extent
            return torch.where(along, tensor * _SMALL, tensor)
        return torch.where(_first(tensor, axis), tensor, tensor * 10.0 ** (-_SPREAD * by))

    return convert(inputs, change)
