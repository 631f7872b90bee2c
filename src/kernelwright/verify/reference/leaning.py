"""Errors that all have one sign: which way outputs of half precision lean, in units of their own last digits.

Rounding to the nearest leans nowhere, cutting off by half a unit towards zero, and each such error is below what any tolerance
of half precision allows. Within one draw honest errors may have one sign as well (a running total that is carried, a scale of a
row that was rounded), so that draws of inputs and sizes are what is counted, and not elements.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_LEAST = 64
"""Elements of a draw that say something."""
_DRAWS = 6
"""Draws from which their mean says something."""
_FAR = 8.0
"""Units beyond which an error counts no more."""
_NEAR_ZERO = 2.0**-12
"""Share of an output's usual size below which single precision, where something cancels, has few digits itself."""
_ALLOWED, _SURE = 0.35, 4.0
"""Units that errors may be on one side beyond the reference's own, and standard errors of their mean. Of 50 honest kernels in
bfloat16 and float16 the mean of all draws is off by 0.12 at most, and by 0.00 less so many standard errors; cutting off leans by 0.5."""

Leaning = tuple[float, float]
"""Mean error in units: away from zero, and upwards."""


def leaning(exact: torch.Tensor, made: torch.Tensor) -> Leaning | None:
    """Of an output `made` in half precision; None where too few elements tell, or it is of another dtype."""
    import torch

    if made.dtype not in (torch.bfloat16, torch.float16) or made.numel() < _LEAST:
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


class Leanings:
    """Those of a candidate, beyond the reference's own, by output and draw."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, Leaning]] = {}

    def note(self, output: int, draw: str, made: Leaning, honest: Leaning) -> None:
        self._known.setdefault(output, {})[draw] = made[0] - honest[0], made[1] - honest[1]

    def too_far(self) -> tuple[int, str] | None:
        """An output whose errors lean further than honest ones do, and how; None where there is none."""
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
