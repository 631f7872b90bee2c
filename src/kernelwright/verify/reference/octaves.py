"""Relative errors of a half-precision softmax, octave by octave of the expected value.

Weights of a softmax span decades, and each has digits of its own: they are read one by one, as probabilities. The largest set the error
that is allowed to an element, so a kernel that sets all small weights to 0 passes there. An honest one errs in each octave about
as much as the reference does. Octaves below the least normal number are left out: GPUs may flush them.
"""

from __future__ import annotations

import math

import torch

FROM = 32
"""Elements from which an octave counts."""
_OF_ERROR, _OF_DIGIT = 2.0, 0.5
"""Multiples of the reference's own root mean square and of the rounding step that are allowed."""
_UNSTEADY = 0.25
"""An element that roundings move by more than this share of itself has no digits to lose."""


def own_error(exact: torch.Tensor, honest: torch.Tensor) -> torch.Tensor:
    """By octave from 1 down to the least normal number, the root mean square relative error (fp64) of an honest run; at least that
    over all octaves, since an octave may be lucky."""
    value, at = _octave_of(exact, honest.dtype)
    squares, count = _by_octave(value, honest, at, honest.dtype)
    usual = squares.sum() / count.sum().clamp_min(1)
    return (squares / count.clamp_min(1)).maximum(usual).sqrt()


def first_wrong(
    value: torch.Tensor, got: torch.Tensor, own: torch.Tensor, slack: float, moved: torch.Tensor | None
) -> tuple[int, float] | None:
    """(flat index, absolute error allowed) of an element in an octave whose error exceeds what is allowed, given the reference's
    `own_error`; None if there is none. `moved` as in `Expected`."""
    value, at = _octave_of(value, got.dtype)
    if moved is not None:
        at = torch.where(moved.reshape(-1) <= _UNSTEADY * value.abs(), at, -1)
    squares, count = _by_octave(value, got, at, got.dtype)
    allowed = (_OF_ERROR * own + _OF_DIGIT * torch.finfo(got.dtype).eps) * slack
    wrong = (count >= FROM) & ((squares / count.clamp_min(1)).sqrt() > allowed)
    if not bool(wrong.any()):
        return None
    octave = int(wrong.to(torch.uint8).argmax())
    far = torch.where(at == octave, (got.reshape(-1).double() - value).abs(), -1.0)
    flat = int(far.argmax())
    return flat, float(allowed[octave] * value[flat].abs())


def _octave_of(exact: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """The values (flat, fp64), and their octaves counted downwards from 1; -1 where none."""
    value = exact.reshape(-1).double()
    size = value.abs()
    known = (size >= torch.finfo(dtype).smallest_normal) & torch.isfinite(size)
    at = (-torch.where(known, size, 1.0).log2().floor()).clamp_min(0).long()
    return value, torch.where(known, at, -1)


def _by_octave(
    value: torch.Tensor, made: torch.Tensor, at: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """(sum of squared relative errors, number of elements) by octave."""
    octaves = 2 - math.floor(math.log2(torch.finfo(dtype).smallest_normal))
    chosen = at >= 0
    relative = (made.reshape(-1).double()[chosen] - value[chosen]) / value[chosen]
    squares = torch.zeros(octaves, dtype=torch.float64, device=value.device)
    squares.index_add_(0, at[chosen], relative.square().nan_to_num(1.0, 1.0, 1.0))
    return squares, torch.bincount(at[chosen], minlength=octaves)
