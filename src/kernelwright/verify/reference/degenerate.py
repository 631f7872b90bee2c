"""Inputs at which formulas behind a product degenerate: zero rows, equal points, very low scores, a large mean.

`degenerate` rows of zeros, rows of one input that nearly equal those of another, and rows opposed to what they are multiplied
             with, so that every score lies below -10,000: for references that normalise, compare or take roots of products.
             Rounding changes much there: we only ask for numbers where the reference has numbers, not far above its largest
`level`      numbers that even TF32 (bfloat16) holds, around a mean a hundred times their spread: for references that take a
             variance of products, where E[y^2] - m^2 cancels and a sum of squares around the mean does not
`apart`      one ordinary number in a row and all others below -10^6.3, rows near -10^9 throughout (as where all is masked), rows
             with one such number, and planes of it if windows have rows: for references that sort or select; in half
             precision rows and planes below -10^6.3 throughout, in float16 below -10^4.1
`least`      the same with the other sign: for references that select the least
`near`       of two inputs of the same form the second lies near the first, like a prediction and its target: without products a
             difference then keeps its digits, while one made of three sums (a^2 - 2ab + b^2) loses all. Of three and more, all
             lie near the first, or in every other row two near one another and the rest near zero (eigenvalues of a, b, b, d)

Inputs with zeros, infinities, one sign or an order, and symmetric matrices, stay as drawn: they may be masks or shares.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from kernelwright.verify.reference.distributions import orders
from kernelwright.verify.structures import convert, flatten

KINDS = ("degenerate", "level", "apart", "least", "near")
_OPPOSED, _OPPOSED_HALF = 300.0, 8.0
_NEAR = 400
"""The most roundings between two points that nearly meet."""
_MEAN, _SPREAD, _STEPS = 128.0, 3.0, 8.0
"""For `level`: the mean, the largest distance from it, and the steps per unit (bfloat16: one)."""
_APART, _APART_HALF = (6.3, 8.0), (4.1, 4.8)
"""Ranges of exponents of ten; the second for float16."""
_BESIDE, _ROUNDINGS = 2.0**-12, 3
"""For `near`: the step relative to each number, at least a rounding; and the most steps."""
_BANISHED = -1e9
"""What models add to a score to mask it."""


def with_kind(inputs: Any, kind: str, generator: torch.Generator) -> Any:
    """The inputs with special values of one kind."""
    usual = [tensor for tensor in flatten(inputs) if is_usual(tensor)]
    change: Callable[[torch.Tensor, list[torch.Tensor], torch.Generator], torch.Tensor] = {
        "degenerate": _degenerate,
        "level": _level,
        "apart": _apart,
        "least": lambda tensor, usual, generator: -_apart(tensor, usual, generator),
        "near": _near,
    }[kind]

    def special(tensor: torch.Tensor) -> torch.Tensor:
        if not any(tensor is one for one in usual):
            return tensor
        return change(tensor, usual, generator).to(tensor.dtype).to(tensor.device)

    return convert(inputs, special)


def pairs(inputs: Any) -> bool:
    """Whether two inputs have the same form and could lie near each other."""
    forms = [(tensor.shape, tensor.dtype) for tensor in flatten(inputs) if is_usual(tensor)]
    return len(set(forms)) < len(forms)


def is_usual(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds numbers of both signs and has no structure that a reference may rely on."""
    if not tensor.is_floating_point() or tensor.numel() < 2 or tensor.ndim < 1:
        return False
    square = tensor.ndim > 1 and tensor.shape[-1] == tensor.shape[-2] > 1
    if (square and torch.equal(tensor, tensor.mT)) or orders(tensor):
        return False
    return bool(torch.isfinite(tensor).all() and (tensor < 0).any() and (tensor > 0).any()) and not bool(
        (tensor == 0).any()
    )


def _rows(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A copy (fp64, host), and a view of its rows."""
    made = tensor.detach().cpu().double().clone(memory_format=torch.contiguous_format)
    return made, made.reshape(-1, made.shape[-1])


def _degenerate(tensor: torch.Tensor, usual: list[torch.Tensor], generator: torch.Generator) -> torch.Tensor:
    made, rows = _rows(tensor)
    size = _OPPOSED_HALF if tensor.dtype == torch.float16 else _OPPOSED
    far = size * (0.5 + rows.abs())

    def near(row: torch.Tensor) -> torch.Tensor:
        return row * (1.0 + torch.randint(-_NEAR, _NEAR + 1, rows.shape, generator=generator) * 2.0**-22)

    if tensor is not usual[0]:
        rows.copy_(near(far[:1]))
        rows[-1:] = 0.0
        return made
    others = [one for one in usual[1:] if one.shape[-1] == tensor.shape[-1]]
    if others:
        rows.copy_(near(size * (0.5 + _rows(others[0])[1][:1].abs())))
    rows[0::4] = -far[0::4]
    rows[1::8] = 0.0
    return made


def _level(tensor: torch.Tensor, usual: list[torch.Tensor], generator: torch.Generator) -> torch.Tensor:
    if tensor is not usual[0]:
        return tensor
    made, _ = _rows(tensor)
    steps = 1.0 if tensor.dtype == torch.bfloat16 else _STEPS
    near = (made / made.std(correction=0)).clamp(-_SPREAD, _SPREAD)
    return _MEAN + (near * steps).round() / steps


def _near(tensor: torch.Tensor, usual: list[torch.Tensor], generator: torch.Generator) -> torch.Tensor:
    alike = [one for one in usual if (one.shape, one.dtype) == (tensor.shape, tensor.dtype)]
    place = next(number for number, one in enumerate(alike) if one is tensor)
    made, rows = _rows(tensor)
    step = max(_BESIDE, torch.finfo(tensor.dtype).eps)
    if place:
        steps = torch.randint(-_ROUNDINGS, _ROUNDINGS + 1, rows.shape, generator=generator)
        rows.copy_(_rows(alike[0])[1] * (1.0 + steps * step))
    pairs = list(itertools.combinations(range(len(alike)), 2)) if len(alike) > 2 else []
    for number, pair in enumerate(pairs):
        if place not in pair:
            (rows if made.ndim > 1 else rows[0])[2 * number + 1 :: 2 * len(pairs)] *= step
    return made


def _apart(tensor: torch.Tensor, usual: list[torch.Tensor], generator: torch.Generator) -> torch.Tensor:
    made, rows = _rows(tensor)
    low, high = _APART_HALF if tensor.dtype == torch.float16 else _APART
    powers = low + (high - low) * torch.rand(rows.shape, generator=generator, dtype=torch.float64)
    kept = torch.randint(rows.shape[1], (len(rows), 1), generator=generator)
    own = rows.gather(1, kept)
    usual_rows = rows[1::4].clone()
    rows.copy_(-(10.0**powers)).scatter_(1, kept, own)
    if tensor.dtype == torch.float32:  # enough digits for all of a row to differ
        order = torch.rand(rows[::4].shape, generator=generator).argsort(dim=1)
        rows[::4] = _BANISHED * (1.0 + (order + 0.5) / (2.0 * rows.shape[1]))
        rows[1::4] = usual_rows.scatter(1, kept[1::4], _BANISHED)
        if made.ndim > 3:  # a window has several rows
            planes = made.flatten(2).flatten(0, 1)[1::2]
            order = torch.rand(planes.shape, generator=generator).argsort(dim=1)
            planes.copy_(_BANISHED * (1.0 + (order + 0.5) / (2.0 * planes.shape[1])))
    else:
        rows[1::4] = -(10.0 ** powers[1::4])
        if made.ndim > 3:
            planes = made.flatten(2).flatten(0, 1)[1::2]
            planes.copy_(-(10.0**powers).reshape(-1, planes.shape[1])[: len(planes)])
    return made
