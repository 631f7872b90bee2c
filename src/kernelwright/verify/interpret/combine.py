"""Reductions and scans by a kernel's own function, bracketed as a GPU may: in a tree, in no promised order.

Triton's interpreter goes from left to right, element by element, so it accepts functions that are not associative or, for a
reduction, not commutative. Here whole blocks are combined: a reduction by halves or neighbours, either operand first; a
scan by doubling distances (Hillis and Steele, CACM 1986).

Not guaranteed: a function that branches on a single value is still applied from left to right.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter, jit

_BRANCHES = (ast.If, ast.IfExp, ast.While, ast.BoolOp)
_KNOWN = ("_sum_combine", "_prod_combine", "_elementwise_max", "_elementwise_min", "_argmax_combine_tie_break_left",
    "_argmax_combine_tie_break_fast", "_argmin_combine_tie_break_left", "_argmin_combine_tie_break_fast")  # fmt: skip
"""Functions of `tl.standard` for which Triton's interpreter uses numpy directly."""
_ANY_OF_EQUAL = ("_argmax_combine_tie_break_fast", "_argmin_combine_tie_break_fast")
"""Those of `_KNOWN` that promise no order of equal elements."""


def reduce(
    operator: interpreter.ReduceOps, values: Sequence[tl.tensor], own: Callable[..., object], drawn: int
) -> object:
    """The result of `tl.reduce`. `drawn` chooses the brackets; `own` is Triton's reduction, for known functions."""
    if operator.axis is None or at_once(operator.combine_fn):
        for name in _ANY_OF_EQUAL:
            if operator.combine_fn is getattr(tl.standard, name, None):
                # Triton 3.6 handles only the variant that takes the first of equal elements.
                operator = copy.copy(operator)
                operator.combine_fn = getattr(tl.standard, name.replace("fast", "left"))
                return _last_of_equal(operator, values, own) if drawn & 3 else own(operator, values)
        return own(operator, values)
    axis, blocks = operator.axis, [value.handle.data for value in values]
    kinds = [value.dtype for value in values]
    level = 0
    while blocks[0].shape[axis] > 1:
        half = blocks[0].shape[axis] // 2
        apart = drawn >> (2 * level % 24) & 1
        one, other = (
            [np.take(block, _places(half, side, bool(apart)), axis=axis) for block in blocks]
            for side in (0, 1)
        )
        if drawn >> (2 * level % 24 + 1) & 1:
            one, other = other, one
        blocks = _combine(operator, one, other, kinds)
        level += 1
    if not operator.keep_dims:
        blocks = [block.squeeze(axis) for block in blocks]
    return [operator.to_tensor(block, kind) for block, kind in zip(blocks, kinds, strict=True)]


def _last_of_equal(
    operator: interpreter.ReduceOps, values: Sequence[tl.tensor], own: Callable[..., Any]
) -> object:
    """(value, index) of a reduction that may take any of equal elements, taking the last."""
    flipped = [operator.to_tensor(np.flip(one.handle.data, operator.axis), one.dtype) for one in values]
    value, place = own(operator, flipped)
    data = values[0].handle.data
    count = data.size if operator.axis is None else data.shape[operator.axis]
    place.handle.data = (count - 1 - place.handle.data).astype(place.handle.data.dtype)
    return value, place


def scan(operator: interpreter.ScanOps, values: Sequence[tl.tensor], own: Callable[..., object]) -> object:
    """The result of `tl.associative_scan`; `own` is Triton's scan."""
    if at_once(operator.combine_fn):
        return own(operator, values)
    axis, kinds = operator.axis, [value.dtype for value in values]
    blocks = [value.handle.data for value in values]
    if operator.reverse:
        blocks = [np.flip(block, axis) for block in blocks]
    extent, distance = blocks[0].shape[axis], 1
    while distance < extent:
        earlier = [np.roll(block, distance, axis) for block in blocks]
        shape = [1] * blocks[0].ndim
        shape[axis] = extent
        reached = (np.arange(extent) >= distance).reshape(shape)
        made = _combine(operator, earlier, blocks, kinds)
        blocks = [np.where(reached, new, old) for new, old in zip(made, blocks, strict=True)]
        distance *= 2
    if operator.reverse:
        blocks = [np.flip(block, axis) for block in blocks]
    return [operator.to_tensor(np.ascontiguousarray(b), kind) for b, kind in zip(blocks, kinds, strict=True)]


def _places(half: int, side: int, apart: bool) -> np.ndarray:
    """Indices of one side's operands: every second element, or one half."""
    return np.arange(half) + side * half if apart else 2 * np.arange(half) + side


def _combine(
    operator: interpreter.ReduceOps | interpreter.ScanOps,
    one: Sequence[np.ndarray],
    other: Sequence[np.ndarray],
    kinds: Sequence[tl.dtype],
) -> list[np.ndarray]:
    left, right = (
        [operator.to_tensor(np.ascontiguousarray(b), kind) for b, kind in zip(side, kinds, strict=True)]
        for side in (one, other)
    )
    made = operator.combine_fn.fn(*left, *right)
    made = made if isinstance(made, tuple | tl.tuple) else (made,)
    shape = one[0].shape
    return [
        np.broadcast_to(item.handle.data if isinstance(item, tl.tensor) else item, shape).astype(b.dtype)
        for item, b in zip(made, one, strict=True)
    ]


def at_once(function: jit.JITFunction) -> bool:
    """Whether to leave a function to Triton's interpreter: it knows it, or the function branches and cannot take blocks."""
    known = any(function is getattr(tl.standard, name, None) for name in _KNOWN)
    return known or _branches(function.src)


@functools.lru_cache(maxsize=256)
def _branches(source: str) -> bool:
    return any(isinstance(node, _BRANCHES) for node in ast.walk(ast.parse(source)))
