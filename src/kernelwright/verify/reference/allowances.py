"""What is asked of outputs at special values: less than elsewhere where honest formulas differ, more where nothing rounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import torch

from kernelwright.verify.reference import special_values
from kernelwright.verify.reference.expected import COARSE, Expected
from kernelwright.verify.reference.operators import Operators

_EXACTLY = 2.0**-12
"""Factor on the error allowed that leaves none of a last digit."""


def expectations_at(
    kind: str,
    expected: list[Expected],
    inputs: object,
    found: Operators,
    usual: Sequence[Expected],
    direct: bool,
) -> list[Expected]:
    """What is asked at special values of a kind: nothing is rounded before a threshold decides (`direct`), and nothing overflows on
    the way. `usual` is what is expected of the drawn inputs; empty where roundings are not looked at."""
    if kind == "extreme":
        expected = [_of_infinities(one, inputs, special_values.chooses(found)) for one in expected]
        if special_values.inexact(found) > 1:
            expected = [_within_reach(one, inputs) for one in expected]
    alone = special_values.pointwise(found) and special_values.inexact(found) <= 1 and kind != "ladder"
    if kind == "extreme" or alone or direct or (kind == "tiny" and special_values.relative(found)):
        expected = [dataclasses.replace(one, elementwise=fine(one)) for one in expected]
    if kind == "beyond":
        expected = [dataclasses.replace(one, elementwise=True, slack=_EXACTLY) for one in expected]
    if kind == "degenerate":
        expected = list(map(_any_number, expected))
    if kind == "ladder" and usual:
        expected = [_each_its_own(*pair) for pair in zip(expected, usual, strict=True)]
    return expected


def own_digits(expected: Expected) -> Expected:
    """Of a reference that is one operator, element by element, whose own run rounds once: so do others."""
    return dataclasses.replace(expected, own_digits=expected.rounded_once)


def fine(expected: Expected) -> bool:
    """Whether the reference itself keeps the digits of an output's type: not where it casts to a narrower one on the way."""
    if not expected.dtype.is_floating_point or expected.half:
        return True
    value = expected.value.double().abs()
    finite = value if expected.judged is None else value[expected.judged.reshape(value.shape)]
    return not finite.numel() or expected.honest_error <= COARSE * float(finite.max())


def _each_its_own(expected: Expected, usual: Expected) -> Expected:
    """Where rows differ by powers of ten, the error that the largest ones allow would hide all others: elements are allowed what
    is usual and their own digits, and beyond that what roundings move them by. Not where digits are few: a rounding there is
    not what `roundings` takes for one."""
    if not expected.dtype.is_floating_point or expected.half:
        return expected
    error = min(expected.honest_error, usual.honest_error)
    return dataclasses.replace(expected, honest_error=error, typical=min(expected.typical, usual.typical))


def _of_infinities(expected: Expected, inputs: object, chooses: bool) -> Expected:
    """Where an infinity goes in, one must come out if the reference has one; what is finite there may be anything, for a
    product with 0 is as good a way to drop a value as a comparison, and gives NaN. Not where the reference `chooses` by a
    condition: what that leaves out may be infinite, and users rely on it."""
    from_infinity = special_values.infinite(inputs, expected.shape)
    if not expected.dtype.is_floating_point or from_infinity is None:
        return expected
    value = expected.value
    finite = torch.isfinite(value) if expected.judged is None else expected.judged
    infinite = torch.zeros_like(finite) if expected.infinite is None else expected.infinite
    judged = finite if chooses else finite & ~from_infinity.to(value.device)
    return dataclasses.replace(expected, judged=judged, infinite=infinite)


def _any_number(expected: Expected) -> Expected:
    """Numbers where the reference has numbers, and none far from the largest of them."""
    value = expected.value.double().nan_to_num(posinf=0.0, neginf=0.0).abs()
    most = float(value.max()) if value.numel() else 0.0
    return dataclasses.replace(expected, honest_error=max(most, 1.0), spread=math.inf)


def _within_reach(expected: Expected, inputs: object) -> Expected:
    """Of several operators that round, brackets are free: a product may come before the function that tames it. So a finite
    number is asked for only where no product of the inputs there, whatever its order, leaves the type."""
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
