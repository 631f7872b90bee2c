"""Inputs that agree in part, so that nothing can be told by how a row or block begins or ends.

A kernel may take what it reads of a row for the row: its first entries (two prompts with one system prompt, caches whose first
token is the same), its ends (a block whose first and last number are one, or as far apart as the block is long), or sums over it. So some
rows begin like the one before and go on otherwise, or with the same in another order, and some have blocks of one number, or consecutive ones, at their ends only.
Integers that are compared with each other, and the few rows of a tensor, also agree in some blocks and not in others.

What a reference accepts is tried on it, change by change (`whole_numbers.take`). Sorted numbers, square matrices and masks
stay as drawn.
"""

from __future__ import annotations

import collections
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from kernelwright.verify.reference.distributions import in_order, orders
from kernelwright.verify.reference.whole_numbers import Change, take
from kernelwright.verify.structures import convert, flatten, with_changed

_RUN, _AGREE, _FEW_ROWS = 16, (4, 4), 4
"""The length of a pattern, bounds of how many integers agree first and how many then do not, and the most rows of a tensor that
are compared with each other."""
OF_EQUAL_SUMS = (
    ((0, 5, 6, 16, 17, 22), (1, 2, 10, 12, 20, 21)),
    ((0, 4, 8, 16, 17), (1, 2, 10, 14, 18)),
    ((0, 4, 7, 11), (1, 2, 9, 10)),
    ((0, 4, 5), (1, 2, 6)),
)
"""Different numbers with equal sums of all powers up to one fewer than there are numbers, whatever is added to all (Prouhet, Tarry
and Escott)."""
_THREES = OF_EQUAL_SUMS[-1]
_OF_ONE_SUM = slice(4, None, 6)
"""Rows that have them: those that neither begin like the one before nor have ends of their own."""
_ALIKE = (16, 1, 64, 256)
"""How many entries of a row are as in the row before."""


def agreeing(inputs: object, call: Callable[[object], list[torch.Tensor]], among: bool, seed: int) -> Any:
    """The inputs with integers that agree in part: two of one form that the reference compares (`among`), and the few rows of one.
    In every other row, or throughout a vector, those at each multiple of 16 and a few behind agree, then some do not, then
    the rest of 16; of other rows all but three do, whose sums are equal. None if the reference accepts none. `call` as in `whole_numbers.wider`."""
    generator = torch.Generator().manual_seed(seed)
    known: dict[object, torch.Tensor] = {}
    forms = collections.Counter((one.shape, one.dtype) for one in flatten(inputs))

    def changes(tensor: torch.Tensor) -> Iterator[Change]:
        if tensor.dtype not in (torch.int32, torch.int64) or tensor.numel() < 2 or orders(tensor):
            return
        form = tensor.shape, tensor.dtype
        if among and form in known:
            first = known[form]
            yield lambda old: torch.where(_in_part(old.shape, generator), first, old)
            yield lambda old: _of_one_sum(first, old, _THREES[1], seed)
        elif among and forms[form] > 1:
            yield lambda old: _of_one_sum(old, old, _THREES[0], seed)
        known.setdefault(form, tensor)
        if tensor.ndim > 1 and 1 < tensor.shape[0] <= _FEW_ROWS:
            yield lambda old: torch.where(_in_part(old.shape[1:], generator), old[:1], old)

    return take(inputs, [changes(one) for one in flatten(inputs)], call)


def _of_one_sum(first: torch.Tensor, old: torch.Tensor, three: Sequence[int], seed: int) -> torch.Tensor:
    """`old` with some rows those of `first`, but for three numbers that have the sum, and the sum of squares, of three others."""
    low, high = (int(end) for end in first.aminmax())
    most = max(map(max, _THREES))
    if first.ndim < 2 or first.shape[-1] < len(three) or high - low < most:
        return old
    made = old.clone(memory_format=torch.contiguous_format)
    generator = torch.Generator().manual_seed(seed)
    start = int(torch.randint(low, high - most + 1, (), generator=generator))
    places = torch.randperm(first.shape[-1], generator=generator)[: len(three)]
    rows = made.reshape(-1, made.shape[-1])[_OF_ONE_SUM]
    rows.copy_(first.reshape(-1, made.shape[-1])[_OF_ONE_SUM])
    rows[:, places] = start + torch.tensor(three).to(rows)
    return made


def _in_part(shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Where integers agree (see `agreeing`)."""
    count = math.prod(shape[:-1])
    agree, differ = (torch.randint(1, most, (count, 1), generator=generator) for most in _AGREE)
    place = torch.arange(shape[-1]) % _RUN
    made = (place < agree) | (place >= agree + differ)
    made[1::2] = False
    return made.reshape(shape)


def told_apart(inputs: object, call: Callable[[object], list[torch.Tensor]], turn: int, seed: int) -> Any:
    """The inputs with integers whose blocks have equal or consecutive ends only, in rows that begin like the one before; None if
    the reference accepts none. `turn`: which rows have which ends; at 1 the first that begin alike have the same rest, backwards. `call` as in `whole_numbers.wider`."""
    generator = torch.Generator().manual_seed(seed)

    def changes(tensor: torch.Tensor) -> Iterator[Change]:
        if tensor.dtype not in (torch.int32, torch.int64) or not is_free(tensor):
            return
        low, high = (int(end) for end in tensor.aminmax())
        if high - low < 2:  # booleans, or one number
            return
        if tensor.shape[-1] > 2:
            first = int(torch.randint(low, high + 1, (), generator=generator))
            yield functools.partial(_with_ends, low=low, high=high, first=first, turn=turn)
        if tensor.ndim > 1:
            yield functools.partial(_begin_alike, turn=int(turn == 1))

    return take(inputs, [changes(one) for one in flatten(inputs)], call)


def crossed(inputs: object) -> Any:
    """The inputs with each second entry of two integer tensors of one form naming what the entry before does, in the other order:
    edges from u to v and from v to u; also of the two rows or columns of one tensor. None if there are no such integers."""
    integers = [
        (place, one)
        for place, one in enumerate(flatten(inputs))
        if one.dtype in (torch.int32, torch.int64) and is_free(one) and not torch.equal(*one.aminmax())
    ]
    for place, one in integers:
        for axis in (axis for axis in (0, -1) if one.ndim == 2 and one.shape[axis] == 2):
            return with_changed(inputs, place, lambda old, at=axis: _cross(old, old.flip(at), 1 + at))  # type: ignore[misc]
    for (place, one), (beside, other) in itertools.combinations(integers, 2):
        if (one.shape, one.dtype) == (other.shape, other.dtype):
            made = with_changed(inputs, place, lambda old, by=other: _cross(old, by, -1))  # type: ignore[misc]
            return with_changed(made, beside, lambda old, by=one: _cross(old, by, -1))  # type: ignore[misc]
    return None


def _cross(old: torch.Tensor, other: torch.Tensor, axis: int) -> torch.Tensor:
    """`old` with each second entry along an axis that of `other` before it."""
    made = old.clone(memory_format=torch.contiguous_format).movedim(axis, -1)
    count = made.shape[-1] // 2 * 2
    made[..., 1:count:2] = other.movedim(axis, -1)[..., 0:count:2]
    return made.movedim(-1, axis)


def begun_alike(inputs: object) -> Any:
    """The inputs with rows of floats that begin like the one before."""
    return convert(inputs, lambda one: _begin_alike(one) if one.is_floating_point() else one)


def is_free(tensor: torch.Tensor) -> bool:
    """Whether numbers are in no order, no square matrix, finite and without zeros that may be a mask of floats."""
    square = tensor.ndim > 1 and tensor.shape[-1] == tensor.shape[-2]
    if tensor.numel() < 2 or not tensor.ndim or square or orders(tensor):
        return False
    return not tensor.is_floating_point() or bool((tensor.isfinite() & (tensor != 0)).all())


def _begin_alike(old: torch.Tensor, turn: int = 0) -> torch.Tensor:
    """Every other entry of the first axis begins like the one before, with as many as `_ALIKE` says in turn but for the last, and every
    fourth, which one is up to `turn`, goes on with the rest of that one backwards; in more than two dimensions along the last but one."""
    if old.ndim < 2 or not is_free(old):
        return old
    made = old.clone(memory_format=torch.contiguous_format)
    axis = max(1, old.ndim - 2)
    by, extent = 2 * len(_ALIKE), old.shape[axis]
    for number, most in enumerate(_ALIKE):
        later = made[2 * number + 1 :: by]
        before, backwards = old[2 * number :: by][: len(later)], (number + turn) % 2
        length = min(most, extent // 2 if backwards else extent - 1)
        later.narrow(axis, 0, length).copy_(before.narrow(axis, 0, length))
        if backwards:
            rest = before.narrow(axis, length, extent - length)
            later.narrow(axis, length, extent - length).copy_(rest.flip(axis))
    return in_order(old, made)


def _with_ends(old: torch.Tensor, low: int, high: int, first: int, turn: int) -> torch.Tensor:
    """Of six rows one whose blocks of sixteen and more, and itself, begin and end with one number, and one with consecutive
    numbers there as far as the largest allows; of a vector, either half."""
    made = old.clone(memory_format=torch.contiguous_format)
    extent = old.shape[-1]
    place = torch.arange(extent)
    ends = (place % _RUN == 0) | (place % _RUN == _RUN - 1) | (place == extent - 1)
    start = min(first - low, max(0, high - low + 1 - extent))
    consecutive = (low + (start + place) % (high - low + 1)).to(old)
    rows = made.reshape(-1, extent)
    if old.ndim == 1:
        consecutive = torch.where(place < extent // 2, first, consecutive)
        return torch.where(ends, consecutive, old)
    rows[2 * (turn % 2) :: 6] = torch.where(ends, consecutive, rows[2 * (turn % 2) :: 6])
    rows[2 * (1 - turn % 2) :: 6] = torch.where(ends, first, rows[2 * (1 - turn % 2) :: 6])
    return made
