"""Bias of half-precision outputs: mean signed errors, in units of the last digit.

Rounding to nearest has no bias, truncation has half a unit towards zero, and each such error is within every tolerance of half
precision. Within one draw honest errors may share a sign, too (a running total that is carried, a rounded scale of a row), so
we count draws of inputs and sizes, not elements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_LEAST = 64
"""Elements from which a draw counts."""
_DRAWS = 6
"""Draws from which their mean counts."""
_FAR = 8.0
"""Units at which errors are clamped."""
_NEAR_ZERO = 2.0**-12
"""Elements below this share of an output's mean size are skipped: after cancellation single precision has few digits there."""
_ALLOWED, _SURE = 0.35, 4.0
"""Bias allowed beyond the reference's own (units), and the standard errors of the mean that are subtracted first. For 50 honest
kernels in bfloat16 and float16 the mean of all draws is at most 0.12, less the standard errors 0.00; truncation gives 0.5."""

Leaning = tuple[float, float]
"""Mean error in units: away from zero, and upwards."""


def leaning(exact: torch.Tensor, made: torch.Tensor) -> Leaning | None:
    """The bias of an output `made` of 16 bits or fewer; None for other dtypes, or if too few elements count."""
    import torch

    if not made.is_floating_point() or made.itemsize > torch.bfloat16.itemsize or made.numel() < _LEAST:
        return None
    value, got = exact.detach().reshape(-1).double(), made.detach().reshape(-1).double()
    size = value.abs()
    known = torch.isfinite(value) & torch.isfinite(got)
    usual = float(torch.where(known, size, 0.0).mean())
    limits = torch.finfo(made.dtype)
    known &= size > max(limits.smallest_normal, _NEAR_ZERO * usual)
    if int(known.sum()) < _LEAST:
        return None
    value, got, size = value[known], got[known], size[known]
    unit = torch.ldexp(torch.full_like(size, limits.eps), torch.frexp(size).exponent - 1)
    error = ((got - value) / unit).clamp(-_FAR, _FAR)
    return float((error * value.sign()).mean()), float(error.mean())


def _beyond(made: float, honest: float) -> float:
    """How far a bias is outside of those from none to the reference's: less than the reference's (which rounds a bound first, on
    a CPU) is no fault."""
    low, high = sorted((0.0, honest))
    return made - min(max(made, low), high)


class Leanings:
    """Biases of a candidate beyond the reference's own, by output and draw."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Leaning]] = {}

    def note(self, output: int, draw: str, made: Leaning, honest: Leaning) -> None:
        away, up = map(_beyond, made, honest)
        self._known.setdefault(output, {})[draw] = away, up

    def too_far(self) -> tuple[int, str] | None:
        """An output with more bias than honest kernels have, and a description; None if there is none."""
        for output, draws in self._known.items():
            if len(draws) < _DRAWS:
                continue
            for sides, one_way in zip(_SIDES, zip(*draws.values(), strict=True), strict=True):
                mean = sum(one_way) / len(one_way)
                spread = sum((one - mean) ** 2 for one in one_way) / (len(one_way) - 1)
                if abs(mean) - _SURE * math.sqrt(spread / len(one_way)) > _ALLOWED:
                    return output, f"{abs(mean):.2f} units of the last digit {sides[mean > 0]}"
        return None


_SIDES = (("towards zero", "away from zero"), ("downwards", "upwards"))
