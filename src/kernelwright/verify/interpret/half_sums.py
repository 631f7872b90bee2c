"""Finds sums of products that are rounded to half precision between products.

A product is followed through additions, multiplications and casts. A sum that one instruction of a kernel rounds to float16 or
bfloat16 for the third time, with more products in it each time, is an accumulator in half precision. Following ends at
memory, reductions and other functions (a recurrence, a softmax), so a chain of two layers with a rounding between them is
not one.

Not guaranteed to find every such sum: one hidden by other arithmetic is left to the comparison of values.
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
    """By instruction of the kernel: how often it rounded the growing sum, and the number of products the last time."""


def product(made: Handle, accumulator: Handle) -> Handle:
    """Mark `made` as a product that is added to the accumulator, and return it."""
    before = accumulator.attr.get(_NOTE, _Sum(0))
    made.attr[_NOTE] = _Sum(before.products + 1, before.roundings)
    return made


def carry(made: Handle, *operands: Handle) -> Handle:
    """Give `made` the marks of its operands, and return it."""
    notes = [one.attr[_NOTE] for one in operands if _NOTE in one.attr]
    if notes:
        roundings = {
            place: max(one.roundings.get(place, (0, 0)) for one in notes)
            for place in {place for one in notes for place in one.roundings}
        }
        made.attr[_NOTE] = _Sum(sum(one.products for one in notes), roundings)
    return made


def note_rounding(made: Handle, *operands: Handle) -> bool:
    """Record that `made` is its operands' sum in half precision; whether this instruction keeps an accumulator there."""
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
    """The kernel's current instruction; None if unknown."""
    frame = sys._getframe(1)
    while frame.f_back is not None and not frame.f_code.co_filename.startswith("<kernel"):
        frame = frame.f_back
    return (frame.f_code, frame.f_lasti) if frame.f_code.co_filename.startswith("<kernel") else None
