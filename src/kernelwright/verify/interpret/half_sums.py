"""Sums of products that are rounded to half precision between one product and the next.

A product is followed through additions, multiplications and casts. Where a sum is rounded to float16 or bfloat16 at one
place of a kernel for the third time, with more products in it each time, it is an accumulator in half precision. What
passes through memory, a reduction or another function (a recurrence, a softmax) begins anew; so a chain of two layers that
a model rounds in between is none.

Does not guarantee that every such sum is found: one hidden by other arithmetic is left to the comparison of values.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from triton.runtime import interpreter

Handle: TypeAlias = interpreter.TensorHandle
_NOTE = "sum of products"
_TIMES = 3


@dataclass(frozen=True)
class _Sum:
    products: int
    roundings: Mapping[object, tuple[int, int]] = field(default_factory=dict)
    """By place in the kernel: how often it rounded the sum with more products in it, and with how many the last time."""


def product(made: Handle, accumulator: Handle) -> Handle:
    """`made`, the handle of a product, which is added to what the accumulator holds."""
    before = accumulator.attr.get(_NOTE, _Sum(0))
    made.attr[_NOTE] = _Sum(before.products + 1, before.roundings)
    return made


def carry(made: Handle, *operands: Handle) -> Handle:
    """`made`, with what its operands are sums of."""
    notes = [one.attr[_NOTE] for one in operands if _NOTE in one.attr]
    if notes:
        roundings = {
            place: max(one.roundings.get(place, (0, 0)) for one in notes)
            for place in {place for one in notes for place in one.roundings}
        }
        made.attr[_NOTE] = _Sum(sum(one.products for one in notes), roundings)
    return made


def note_rounding(made: Handle, *operands: Handle) -> bool:
    """Notes that `made` is its operands' sum in half precision; whether this place keeps it there product by product."""
    carry(made, *operands)
    if _NOTE not in made.attr:
        return False
    note, place = made.attr[_NOTE], _place()
    times, products = note.roundings.get(place, (0, 0))
    if place is None or note.products <= products:
        return False
    made.attr[_NOTE] = _Sum(note.products, {**note.roundings, place: (times + 1, note.products)})
    return times + 1 >= _TIMES


def _place() -> object:
    """The instruction of the kernel that is running; None if nobody knows."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not frame.f_code.co_filename.startswith("<kernel"):
        frame = frame.f_back
    return (frame.f_code, frame.f_lasti) if frame.f_code.co_filename.startswith("<kernel") else None
