"""Rows that each have a shape of their own, as data have and draws at random never do.

A kernel may be wrong for rows that repeat, swing from one element to the next, stay at one number for long, hold a rare number at two
places far apart, or make a sum that is exactly a bound. One case asks all of these: three rows of four, of floats and of integers, are
made of its own numbers in one of the shapes below, so signs and ranges stay those of the task. Vectors of integers are taken in
pieces. Of integers of one form the second is also what the first lacks to a number that the reference names, or the first in other order
with a few replaced by others of the same sums of powers; the third is the sum or the difference of two; and
one for each row is the sum of a row's beginning.

What a reference accepts is tried on it (`whole_numbers.take`). Sorted numbers, square matrices, masks, and floats where ties decide
stay as drawn, and equal halves or neighbours of a row equal.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import torch

from kernelwright.verify.reference.distributions import in_order, orders
from kernelwright.verify.reference.in_part import OF_EQUAL_SUMS, is_free
from kernelwright.verify.reference.task_module import where_possible
from kernelwright.verify.reference.whole_numbers import Change, are_positions, take
from kernelwright.verify.structures import convert, flatten

_MOST_ROWS, _PIECES, _LEAST = 96, 24, 3
"""The most rows that get a shape, the pieces of a vector, and the least elements of a row with one."""
_EVERY = 4
"""One row of so many stays as drawn."""
_PERIODS = range(2, 10)
_LITTLE, _QUIET = 0.02, 1e-3
"""How far floats lie from a level, and quiet ones from the end of their range that is next to 0, as a share of where they lay."""
_SPREAD_BITS = {torch.int32: 30, torch.int64: 40}
_SIZED = ("bincount", "one_hot", "repeat_interleave", "histc")
"""Operators that make a size of a large integer."""
_LOW_BITS = 16
"""Bits that numbers have in common if they are spread out."""
_TRIED = 32
"""Numbers that are tried as the least of a few whose sums of powers others have, and draws of three that can be mirrored."""
_NARROW = 255
"""A range up to which a row is taken to have such numbers."""


def shaped(
    inputs: object,
    call: Callable[[object], list[torch.Tensor]],
    named: Sequence[int],
    floats: bool,
    seed: int,
) -> Any:
    """The inputs with shapes for most rows, of floats if `floats`; None if the reference accepts none. `named`: integers that
    it names. `call` as in `whole_numbers.wider`."""
    generator = torch.Generator().manual_seed(seed)
    made = convert(
        inputs, lambda one: _rows(one, (), generator) if floats and one.is_floating_point() else one
    )
    known: list[torch.Tensor] = []
    changes = [_changes(one, named, known, generator) for one in flatten(inputs)]
    return take(made, changes, call) or (made if floats else None)


def spread(inputs: object, call: Callable[[object], list[torch.Tensor]], operators: Collection[str]) -> Any:
    """The inputs with all integers multiplied by one power of two, so that their low bits are alike; None if they are large, or
    if outputs are then others, so that not only order and equality count. `call` and `operators` as in `whole_numbers.wider`."""
    if any(word in name for name in operators for word in _SIZED):
        return None
    whole = [one for one in flatten(inputs) if one.dtype in _SPREAD_BITS and one.numel()]
    bits = [_SPREAD_BITS[one.dtype] - int(one.abs().max()).bit_length() for one in whole]
    if not bits or min(bits) < _LOW_BITS // 2:
        return None
    factor = 1 << min(_LOW_BITS, *bits)
    made = convert(inputs, lambda one: one * factor if one.dtype in _SPREAD_BITS else one)
    with where_possible():
        return made if all(map(torch.equal, call(inputs), call(made))) else None
    return None


def _changes(
    tensor: torch.Tensor, named: Sequence[int], known: list[torch.Tensor], generator: torch.Generator
) -> Iterator[Change]:
    """What is tried on a tensor of integers; `known` are those before it, as they became."""
    if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool or not tensor.ndim:
        return
    low, high = (int(end) for end in tensor.aminmax()) if tensor.numel() else (0, 0)
    if high - low < 2 or orders(tensor) or are_positions(tensor, ()):
        return

    def noted(change: Change, old: torch.Tensor) -> torch.Tensor:
        known[slot] = change(old)
        return known[slot]

    rare = [number for number in named if low <= number <= high]
    alike = [one for one in known if one.shape == tensor.shape]
    sums = [one for one in known if one.shape[:-1] == tensor.shape and one.ndim > 1]
    slot = len(known)
    known.append(tensor)
    if tensor.shape[-1] >= _LEAST:
        yield functools.partial(noted, lambda old: _rows(old, rare, generator))
    if alike:
        yield functools.partial(noted, lambda old: _of_pair(old, alike[-1], named, (low, high), generator))
    for other, more in itertools.pairwise(alike):
        yield lambda old, a=other, b=more: _within(old, [a + b, a - b, b - a], (low, high), 4)  # type: ignore[misc]
    for table in sums:
        ends = torch.randint(table.shape[-1], tensor.shape, generator=generator).unsqueeze(-1)
        yield lambda old, t=table, e=ends: _within(
            old, [t.cumsum(-1).gather(-1, e).squeeze(-1)], (low, high), 2
        )  # type: ignore[misc]


def _within(
    old: torch.Tensor, others: Sequence[torch.Tensor], ends: tuple[int, int], every: int
) -> torch.Tensor:
    """The integers with all but each `every`-th replaced by those of `others`, in turn, that lie in the task's range."""
    place = torch.arange(old.numel()).reshape(old.shape)
    made = old
    for number, other in enumerate(others):
        fits = (other >= ends[0]) & (other <= ends[1]) & (place % every == number % every)
        made = torch.where(fits, other.to(old.dtype), made)
    return made


def _of_pair(
    old: torch.Tensor,
    first: torch.Tensor,
    named: Sequence[int],
    ends: tuple[int, int],
    generator: torch.Generator,
) -> torch.Tensor:
    """The second of two tensors of one form: in some rows what the first lacks to a named number, in others the first in another
    order, with some numbers replaced."""
    made = old.clone(memory_format=torch.contiguous_format)
    others = sorted(number for number in named if number > 1)[-2:]
    lines = zip(_lines(made), _lines(first.contiguous()), strict=True)
    for place, (line, own) in enumerate(lines):
        if place % 4 == 3 and others:
            missing = others[place // 4 % len(others)] - own.to(torch.int64)
            line.copy_(torch.where((missing >= ends[0]) & (missing <= ends[1]), missing, line))
        elif place % 4 < 3:  # of which one is as drawn
            order = torch.randperm(len(own), generator=generator)
            line.copy_(_mirrored(own, ends, generator)[order])
    return made


def _mirrored(row: torch.Tensor, ends: tuple[int, int], generator: torch.Generator) -> torch.Tensor:
    """A row with a few of its numbers replaced by others of the same sums of powers: the highest for which it has the numbers, or three
    mirrored about their mean, which changes neither their sum nor that of their squares."""
    low, high = ends
    held, numbers = row.to(torch.int64), row.tolist()
    known = set(numbers)
    least = (torch.randperm(min(high - low, _NARROW) + 1, generator=generator)[:_TRIED] + low).tolist()
    for old, new in (pair for some in OF_EQUAL_SUMS for pair in (some, some[::-1])):
        for start in least:
            if start + max(new) <= high and {start + one for one in old} <= known:
                places = torch.tensor([numbers.index(start + one) for one in old])
                return row.scatter(0, places, start + torch.tensor(new).to(row))
    for _ in range(_TRIED if len(row) >= _LEAST else 0):
        chosen = torch.randperm(len(row), generator=generator)[:3]
        other = 2 * int(held[chosen].sum()) // 3 - held[chosen]
        whole = int(held[chosen].sum()) % 3 == 0 and bool(((other >= low) & (other <= high)).all())
        if whole and not torch.equal(other.sort().values, held[chosen].sort().values):
            return row.scatter(0, chosen, other.to(row))
    return row


def _lines(tensor: torch.Tensor) -> Sequence[torch.Tensor]:
    """Rows of a contiguous tensor; of a vector, pieces."""
    if tensor.ndim > 1:
        return tensor.reshape(-1, tensor.shape[-1])[: 2 * _MOST_ROWS].unbind(0)
    return tensor.tensor_split(max(1, min(_PIECES, len(tensor) // _LEAST)))


def _rows(tensor: torch.Tensor, rare: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """A tensor of which most rows have a shape, in turn; `rare` are integers that the reference tests for."""
    if tensor.is_floating_point() and (tensor.ndim < 2 or not is_free(tensor)):
        return tensor
    if tensor.shape[-1] < _LEAST:
        return tensor
    made = tensor.clone(memory_format=torch.contiguous_format)
    lines = _lines(made)
    turn = int(torch.randint(2 * len(_SHAPES) * len(_PERIODS), (), generator=generator))
    places = [place for place in range(len(lines)) if place % _EVERY or len(lines) <= _LEAST]
    for number, place in enumerate(places, turn):
        line, own = lines[place], lines[place].clone()
        if rare:  # some, or all, of the numbers
            chosen = torch.tensor(rare)[torch.randint(len(rare), own.shape, generator=generator)].to(own)
            few = torch.rand(own.shape, generator=generator) < 1 / (
                1 + number // len(_SHAPES) % 2 * len(rare)
            )
            own = torch.where(few, chosen, own)
        shape = _SHAPES[number % len(_SHAPES)]
        line.copy_(shape(own, lines[place - 1], number, generator))
    return in_order(tensor, made)


def _summed_exactly(own: torch.Tensor) -> torch.Tensor:
    """Floats with so few digits that sums of the row are exact in any order: roundings of numbers that recur would all go one way,
    which no tolerance from roundings at random allows. None becomes 0."""
    if not own.is_floating_point():
        return own
    step = 2.0 ** math.ceil(math.log2(max(float(own.abs().max()), 1e-30))) / 256
    low, high = float(own.min()), float(own.max())
    made = ((own / step).round() * step).clamp(math.ceil(low / step) * step, math.floor(high / step) * step)
    return torch.where(made == 0, own.sign() * step, made) if low * high > 0 else made


def _periodic(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    return _summed_exactly(own)[
        torch.arange(len(own)) % _PERIODS[-(-turn * _SHAPES.count(_periodic) // len(_SHAPES)) % len(_PERIODS)]
    ]


def _in_runs(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    """Runs of one number, of drawn lengths up to half of the row."""
    longest = 1 + (len(own) // 2 - 1) * float(torch.rand((), generator=generator))
    begins = torch.rand(len(own), generator=generator) < 1 / max(1.0, longest)
    place = torch.arange(len(own))
    return _summed_exactly(own)[torch.where(begins, place, 0).cummax(0).values]


def _swinging(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    """Up and down from one element to the next."""
    return _levels(own, torch.arange(len(own)) % 2 == 0)


def _stepped(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    """One level, then another."""
    return _levels(own, torch.arange(len(own)) < int(torch.randint(len(own), (), generator=generator)))


def _levels(own: torch.Tensor, upper: torch.Tensor) -> torch.Tensor:
    ranked = own.sort().values
    high, low = ranked[(len(own) - 1) * 9 // 10], ranked[(len(own) - 1) // 10]
    made = torch.where(upper, high, low)
    return made + (_LITTLE * (own - ranked[len(own) // 2])).to(own) if own.is_floating_point() else made


def _spiked(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    """Quiet but for one element, in turn the first and another."""
    loud = own.abs().argmax()
    place = int(torch.randint(len(own), (), generator=generator)) if turn % 2 else 0
    made = _quiet(own)
    made[place] = own[loud]
    return made


def _quiet(own: torch.Tensor) -> torch.Tensor:
    """All elements near the end of their range that is next to 0, or near 0 within it; of integers one number."""
    least = own[own.abs().argmin()]
    if not own.is_floating_point():
        return torch.full_like(own, int(least))
    return torch.where(own.min() * own.max() > 0, least, 0.0).to(own) + _QUIET * (own - least)


def _ramp(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    return own.sort(descending=bool(turn % 2)).values


def _sparse(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    return torch.where(torch.rand(len(own), generator=generator) < 2 / len(own), own, _quiet(own))


def _shifted(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    """The row before, moved by some places."""
    return before.roll(1 + turn) if len(before) == len(own) else own.roll(1 + turn)


def _rare(own: torch.Tensor, before: torch.Tensor, turn: int, generator: torch.Generator) -> torch.Tensor:
    """One number at both ends and nowhere else."""
    number, other = own[0], own[own != own[0]][:1]
    made = torch.where(own == number, other, own) if len(other) else own.clone()
    made[0] = made[-1] = number
    return made


_SHAPES = (
    _periodic, _in_runs, _swinging, _periodic, _stepped, _spiked, _periodic, _ramp, _in_runs, _periodic, _sparse, _shifted, _rare,
)  # fmt: skip
"""What is made of a row; periods are several, and runs are of the row's numbers or of those that the reference names."""
