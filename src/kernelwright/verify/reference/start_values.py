"""Inputs that a task draws as one number throughout, or as an identity, and other numbers for them.

A state that begins as zeros, a scale of ones, a pose that is none: a kernel that takes them for such is right on every draw, and wrong for whoever calls
it again with the state that it gave. Where the reference is finite with other numbers, and makes something else of them, they are asked.

Does not change integers and truth values (0 may mean no place), nor what is structured otherwise (a triangle, one in each row).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernelwright.verify.structures import convert, flatten

_DRAWS = 8
"""In all of which a tensor is the same number: a mask may be empty by chance."""
_LEAST = 0.25
"""Share of a number that is not 0 that others in its place have at least."""

_BESIDE = 0.25
"""Size of what is added to an identity."""


def even_places(first: object, draw: Callable[[int], object]) -> list[int]:
    """Places, among the tensors of the inputs, of those that are one number, or an identity, in every draw; `draw` takes its number."""
    places = [place for place, one in enumerate(flatten(first)) if _is_even(one) or _is_identity(one)]
    for number in range(_DRAWS if places else 0):
        again, before = flatten(draw(number)), flatten(first)
        places = [at for at in places if torch.equal(again[at], before[at])]
    return places


def with_others(inputs: object, signed: Mapping[int, bool]) -> Any:
    """The inputs with tensors of one number, by place, drawn anew: zeros as normal numbers, of either sign where `signed`, and
    others below their own size; of an identity none is 0."""
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
    """Whether a tensor holds one number only; a single one does where that is 0."""
    if not tensor.is_floating_point() or not tensor.numel():
        return False
    first = tensor.reshape(-1)[0]
    return bool(torch.isfinite(first) & (tensor == first).all() & ((first == 0.0) | (tensor.numel() > 1)))


def _is_identity(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one identity matrix or several."""
    if not tensor.is_floating_point() or tensor.ndim < 2 or not tensor.numel():
        return False
    rows, columns = tensor.shape[-2:]
    return rows == columns > 1 and bool((tensor == torch.eye(rows).to(tensor)).all())
