"""What is expected of outputs at special values: less where honest formulas differ, more where nothing rounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from kernelwright.verify.reference import special_values
from kernelwright.verify.reference.expected import COARSE, Expected
from kernelwright.verify.reference.operators import Operators

_EXACTLY = 2.0**-12
"""Factor on the error allowed that makes the last digit exact."""


def expectations_at(
    kind: str,
    expected: list[Expected],
    inputs: object,
    found: Operators,
    usual: Sequence[Expected],
    direct: bool,
) -> list[Expected]:
    """Expectations at special values of a `kind`. `direct`: nothing is rounded before a threshold decides, and nothing
    overflows on the way. `usual`: expectations for the drawn inputs; empty if roundings are not examined."""
    if kind == "extreme":
        chooses, exponents = special_values.chooses(found), special_values.takes_exponents(found)
        expected = [_of_infinities(one, inputs, chooses, exponents) for one in expected]
        if special_values.inexact(found) > 1:
            expected = [_within_reach(one, inputs) for one in expected]
    alone = special_values.pointwise(found) and special_values.inexact(found) <= 1 and kind != "ladder"
    if kind == "extreme" or alone or direct or (kind == "tiny" and special_values.relative(found)):
        expected = [dataclasses.replace(one, elementwise=fine(one)) for one in expected]
    if kind == "beyond":
        expected = [dataclasses.replace(one, elementwise=True, slack=_EXACTLY) for one in expected]
    if kind == "degenerate":
        expected = list(map(_any_number, expected))
    if kind in ("ladder", "apart", "least") and usual:
        expected = [_each_its_own(*pair) for pair in zip(expected, usual, strict=True)]
    return expected


def own_digits(expected: Expected) -> Expected:
    """For a reference that is one elementwise operator: if its own run rounds once, so must the candidate's."""
    return dataclasses.replace(expected, own_digits=expected.rounded_once)


def fine(expected: Expected) -> bool:
    """Whether the reference keeps all digits of an output's type, and does not cast to a narrower one on the way."""
    if not expected.dtype.is_floating_point or expected.half:
        return True
    value = expected.value.double().abs()
    finite = value if expected.judged is None else value[expected.judged.reshape(value.shape)]
    return not finite.numel() or expected.honest_error <= COARSE * float(finite.max())


def _each_its_own(expected: Expected, usual: Expected) -> Expected:
    """If rows differ by powers of ten, the error allowed to the largest would hide all others. So each element is allowed the
    usual error and its own digits, and beyond that what roundings move it by. Not in half precision: a rounding there is not
    what `roundings` models."""
    if not expected.dtype.is_floating_point or expected.half:
        return expected
    error = min(expected.honest_error, usual.honest_error)
    return dataclasses.replace(expected, honest_error=error, typical=min(expected.typical, usual.typical))


def _of_infinities(expected: Expected, inputs: object, chooses: bool, exponents: bool) -> Expected:
    """Where an infinity goes in, an infinity must come out if the reference has one. Finite values there are not judged: to drop
    a value by multiplying with 0 is as valid as a comparison, and gives NaN. They are judged if the reference `chooses` by a
    condition: users rely on excluded values being allowed to be infinite. Integers made of an infinity's exponent are not."""
    from_infinity = special_values.infinite(inputs, expected.shape)
    if from_infinity is None:
        return expected
    if not expected.dtype.is_floating_point:
        return dataclasses.replace(expected, judged=~from_infinity) if exponents else expected
    value = expected.value
    finite = torch.isfinite(value) if expected.judged is None else expected.judged
    infinite = torch.zeros_like(finite) if expected.infinite is None else expected.infinite
    judged = finite if chooses else finite & ~from_infinity.to(value.device)
    return dataclasses.replace(expected, judged=judged, infinite=infinite)


def _any_number(expected: Expected) -> Expected:
    """Expect any number where the reference has a number, not far above the largest of them."""
    value = expected.value.double().nan_to_num(posinf=0.0, neginf=0.0).abs()
    most = float(value.max()) if value.numel() else 0.0
    return dataclasses.replace(expected, honest_error=max(most, 1.0), spread=math.inf)


def _within_reach(expected: Expected, inputs: object) -> Expected:
    """With several rounding operators brackets are free: a product may come before the function that bounds it. So a finite
    number is expected only where no product of the inputs, in any order, overflows the type."""
    value = expected.value
    if not expected.dtype.is_floating_point:
        return expected
    reach = special_values.product_of_magnitudes(inputs, expected.shape)
    most = math.sqrt(torch.finfo(expected.dtype).max)
    near = torch.ones(value.shape, dtype=torch.bool) if reach is None else (reach < most).reshape(value.shape)
    finite = torch.isfinite(value) if expected.judged is None else expected.judged
    infinite = torch.zeros_like(finite) if expected.infinite is None else expected.infinite
    return dataclasses.replace(
        expected, judged=finite & near.to(value.device), infinite=infinite & near.to(value.device)
    )
