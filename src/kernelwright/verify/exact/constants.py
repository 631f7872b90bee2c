"""What a floating-point literal stands for over the reals: a fraction, times a root or one of a few known numbers.

    closest(0.044715) == Form(Fraction(8943, 200000))
    closest(0.70710677) == Form(Fraction(1, 2), roots=1)
    closest(0.18033688) == Form(Fraction(1, 8), factor="1/ln2")     # 1.4426950 / sqrt(64)

We take the simplest form within a relative 2.5e-7 (two roundings of float32), so that 0.1 in single and in double
precision is the same number. A number without a simple form is its float32 value. Two literals with the same form are
equal: kernels whose constants differ by less than rounding cannot be distinguished here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from fractions import Fraction

import numpy as np

TOLERANCE = 2.5e-7
INFINITE = 1e29
"""Numbers at least this large count as infinite: padding of maxima and masks."""
FACTORS = {
    "1": 1.0, "pi": math.pi, "1/pi": 1 / math.pi, "ln2": math.log(2), "1/ln2": 1 / math.log(2),
    "ln10": math.log(10), "1/ln10": 1 / math.log(10), "ln10/ln2": math.log2(10), "ln2/ln10": math.log10(2),
}  # fmt: skip
_SIMPLE, _SIMPLE_UNDER_ROOT, _SIMPLE_FACTOR = 4000, 40_000, 400
"""Largest product of numerator and denominator of a simple fraction: alone, under a root, with a factor."""
_DIGITS = (4, 6)
"""Most significant digits of decimals tried before, and after, forms with roots and factors."""


@dataclasses.dataclass(frozen=True)
class Form:
    """`sign` times `fraction` times the known number `factor`, with `roots` square roots taken of the fraction and, if it is pi,
    of the factor."""

    fraction: Fraction
    roots: int = 0
    factor: str = "1"
    sign: int = 1
    inexact: bool = False
    """Whether no simple form was found."""


@functools.lru_cache(maxsize=4096)
def closest(value: float) -> Form:
    """The simplest form of a finite number."""
    size = abs(value)
    sign = -1 if value < 0 else 1
    if size == int(size) and size < 1e15:
        return Form(Fraction(int(size)), sign=sign)
    for form in (_fraction(size, _SIMPLE), _decimal(size, _DIGITS[0]), _inverse(size)):
        if form is not None:
            return Form(form, sign=sign)
    for name, factor in FACTORS.items():
        if name != "1" and (form := _fraction(size / factor, _SIMPLE_FACTOR)) is not None:
            return Form(form, 0, name, sign)
    for name, factor in FACTORS.items():
        limit = _SIMPLE_UNDER_ROOT if name == "1" else _SIMPLE
        square = size * size / (factor if name in ("pi", "1/pi") else factor * factor)
        if (form := _fraction(square, limit, 2 * TOLERANCE)) is not None:
            return Form(form, 1, name, sign)
    if (form := _fraction(size**4, _SIMPLE, 4 * TOLERANCE)) is not None:
        return Form(form, 2, sign=sign)
    decimal = _decimal(size, _DIGITS[1])
    if decimal is None:
        return Form(Fraction(float(np.float32(size))), sign=sign, inexact=True)
    return Form(decimal, sign=sign, inexact=True)


def _fraction(size: float, limit: int, tolerance: float = TOLERANCE) -> Fraction | None:
    """The first convergent of the continued fraction within the tolerance, if it is simple."""
    rest, low, high = size, (0, 1), (1, 0)
    for _ in range(12):
        whole = math.floor(rest)
        low, high = high, (whole * high[0] + low[0], whole * high[1] + low[1])
        if high[0] * high[1] > limit:
            return None
        if high[0] and abs(high[0] / high[1] - size) <= tolerance * size:
            return Fraction(*high)
        rest = 1.0 / (rest - whole) if rest != whole else math.inf
        if math.isinf(rest):
            return None
    return None


def _decimal(size: float, digits: int) -> Fraction | None:
    for count in range(1, digits + 1):
        text = f"{size:.{count - 1}e}"
        if abs(float(text) - size) <= TOLERANCE * size:
            return Fraction(text)
    return None


def _inverse(size: float) -> Fraction | None:
    """1 / n for a whole n up to a million."""
    whole = round(1.0 / size) if 1e-6 <= size < 1.0 else 0
    return Fraction(1, whole) if whole and abs(whole * size - 1.0) <= TOLERANCE else None
