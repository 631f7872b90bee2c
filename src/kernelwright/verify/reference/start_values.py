"""Inputs that a task draws as a single number throughout, or as an identity matrix, and other values for them.

For example a state that begins as zeros, a scale of ones, an identity pose. A kernel that relies on that is right in every draw,
and wrong once a user passes in the state it returned. Other values are asked if the reference stays finite and changes with them.

Not changed: integers and booleans (0 may mean no index), and other structures (a triangle, one-hot rows).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernelwright.verify.structures import convert, flatten

_DRAWS = 8
"""Draws in all of which a tensor must be the same number: a mask may be empty by chance."""
_LEAST = 0.25
"""Least factor by which a nonzero number is scaled; the most is 1."""

_BESIDE = 0.25
"""Size of the values added to an identity."""


def even_places(first: object, draw: Callable[[int], object]) -> list[int]:
    """Positions, among the input tensors, of those that are one number or an identity in every draw; `draw` takes its number."""
    places = [place for place, one in enumerate(flatten(first)) if _is_even(one) or _is_identity(one)]
    for number in range(_DRAWS if places else 0):
        again, before = flatten(draw(number)), flatten(first)
        places = [at for at in places if torch.equal(again[at], before[at])]
    return places


def with_others(inputs: object, signed: Mapping[int, bool]) -> Any:
    """The inputs with tensors of one number, by position, drawn anew: zeros become normal numbers, of either sign if `signed`,
    other numbers are scaled down, and something is added to identities."""
    places = itertools.count()

    def other(tensor: torch.Tensor) -> torch.Tensor:
        either = signed.get(next(places))
        if either is None:
            return tensor
        made = torch.randn(tensor.shape).to(tensor)
        if _is_identity(tensor):
            return tensor + _BESIDE * (made if either else made.abs())
        size = torch.rand(tensor.shape).to(tensor).mul_(1.0 - _LEAST).add_(_LEAST)
        return torch.where(tensor == 0.0, made if either else made.abs(), tensor * size)

    return convert(inputs, other)


def _is_even(tensor: torch.Tensor) -> bool:
    """Whether all elements are one number; a single element counts only if it is 0."""
    if not tensor.is_floating_point() or not tensor.numel():
        return False
    first = tensor.reshape(-1)[0]
    return math.isfinite(first) and bool((tensor == first).all() & ((first == 0.0) | (tensor.numel() > 1)))


def _is_identity(tensor: torch.Tensor) -> bool:
    """Whether a tensor is an identity matrix or several."""
    if not tensor.is_floating_point() or tensor.ndim < 2 or not tensor.numel():
        return False
    rows, columns = tensor.shape[-2:]
    return rows == columns > 1 and bool((tensor == torch.eye(rows).to(tensor)).all())
