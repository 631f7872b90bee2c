"""Cuts off lanes of a recording's blocks that do nothing: those past the last one that masks of its accesses let through.

A kernel that is written for rows of 25,000 elements has blocks of 2,048 lanes, of which small sizes use 8. What the others compute
is seen nowhere if

- every access of a block is masked there for all instances;
- a reduction gets one and the same number from each, such as 0: it then gets this number as often as the block is wide (`widened`),
  so its result has the same bits, and a kernel that counts lanes too many is as wrong as it was.

Both are proven here step by step, without running anything; a recording for which one fails keeps its lanes. At least one dead lane
is kept, which stands for all.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

from kernelwright.verify.interpret.recording import Recording

Handle: TypeAlias = interpreter.TensorHandle
_LEAST = 16
"""Lanes that are kept, and are as fast as one."""
_VARIED, _EQUAL, _OFF = 0, 1, 2
"""What is known of a block's dead lanes: nothing; they have one value in each instance; this is False."""
_ON_BLOCKS = ("create_splat", "create_broadcast", "create_masked_load", "create_masked_store", "reduce")


def narrowed(way: Recording, elementwise: frozenset[str]) -> Recording | None:
    """The recording with fewer lanes in all its blocks, found once; None if lanes have to stay. `elementwise`: labels of steps that do
    the same to each lane."""
    if way.narrow is None:
        width = way.widest
        one_width = set(way.blocks.values()) == {(width,)}
        lanes = _LEAST
        way.narrow = False
        while one_width and 4 * lanes <= width and not way.narrow:
            if _is_dead_from(way, lanes - 1, width, elementwise):
                way.narrow = _cut(way, lanes, width)
            lanes *= 2
    return way.narrow or None


def widened(block: Handle, lanes: int, count: int) -> Handle:
    """A block of so many `lanes` again, of `count` instances: the last of those kept stands for the rest."""
    data = np.empty((count, lanes), dtype=block.data.dtype)
    kept = block.data.shape[-1]
    data[:, :kept] = block.data
    data[:, kept:] = block.data[..., -1:]
    return interpreter.TensorHandle(data, block.dtype)


def _is_dead_from(way: Recording, first: int, width: int, elementwise: frozenset[str]) -> bool:
    """Whether lanes from `first` on do nothing."""
    known: dict[int, int] = {}
    for place, value in enumerate(way.values):
        if isinstance(value, interpreter.TensorHandle) and value.data.size > 1:
            if value.data.shape != (width,):
                return False
            known[place] = _state(value.data[first:])
    return all(
        _follow(way, label, step, known, elementwise)
        for step, label in zip(way.steps, way.labels, strict=True)
    )


def _state(lanes: np.ndarray) -> int:
    if lanes.dtype == np.bool_ and not lanes.any():
        return _OFF
    return _EQUAL if lanes.tobytes() == lanes[:1].tobytes() * lanes.size else _VARIED


def _follow(
    way: Recording, label: str, step: Any, known: dict[int, int], elementwise: frozenset[str]
) -> bool:
    """Add what is known of a step's results to `known`, which has all blocks so far. False if a dead lane does something there."""
    _, places, kwargs, out = step
    given = [place for place in places if place in known]
    block = type(out) is int and out in way.blocks
    if not given and not block:
        return True
    if kwargs or (label not in elementwise and label not in _ON_BLOCKS):
        return False
    if label == "reduce":
        return not block and all(known[place] and place in way.moving for place in given)
    if label in ("create_masked_load", "create_masked_store"):
        if any(way.values[place] is True for place in places[3:]):  # volatile
            return False
        mask = places[1 if label == "create_masked_load" else 2]
        if known.get(mask) != _OFF or places[0] not in known:
            return False
    if out is None:
        return True
    if type(out) is not int or not block:
        return False
    known[out] = _result(way, label, places, known)
    return True


def _result(way: Recording, label: str, places: Sequence[int], known: dict[int, int]) -> int:
    """What is known of the block that a step makes."""
    of = [known.get(place, _EQUAL) for place in places]
    if label == "create_masked_load":
        empty = way.values[places[2]] is None and places[2] not in way.moving
        return _VARIED if empty else min(of[2], _EQUAL)
    if label == "create_and" and _OFF in of:
        return _OFF
    if label == "create_select" and of[0] == _OFF:
        return of[2]
    return min(*of, _EQUAL)


def _cut(way: Recording, lanes: int, width: int) -> Recording:
    """The same steps on blocks of so many lanes."""
    made = copy.copy(way)
    made.values = list(way.values)
    for place, value in enumerate(way.values):
        if isinstance(value, interpreter.TensorHandle) and value.data.size > 1:
            made.values[place] = interpreter.TensorHandle(value.data[:lanes], value.dtype, dict(value.attr))
    for (_, places, _, out), label in zip(way.steps, way.labels, strict=True):
        if label == "create_splat" and out in way.blocks:
            kind: Any = way.values[places[0]]
            made.values[places[0]] = tl.block_type(kind.scalar, [lanes])
        if label == "create_broadcast" and out in way.blocks:
            made.values[places[1]] = [lanes]
    made.widest, made.before_cut = lanes, width
    return made
