"""The numbers that literals represent."""

import math
from fractions import Fraction

import numpy as np
import pytest

from kernelwright.verify.exact.constants import Form, closest


@pytest.mark.parametrize(
    "value", [0.1, 0.044715, 1 / 3, 1e-5, 1e-6, 1 / 49152, 2**-0.5, math.sqrt(2 / math.pi), 1.702, 32**-0.25]
)
def test_single_and_double_precision_are_one_number(value: float) -> None:
    assert closest(value) == closest(float(np.float32(value)))


def test_a_scale_times_log2_of_e_is_known() -> None:
    assert closest(1.44269504 / 8) == Form(Fraction(1, 8), factor="1/ln2")
    assert closest(1.44269504 / math.sqrt(80)) == Form(Fraction(1, 80), roots=1, factor="1/ln2")


def test_constants_that_differ_by_more_than_rounding_differ() -> None:
    assert closest(0.044715) != closest(0.0447)
    assert closest(1 / 49152) != closest(1 / 49153)


def test_signs_are_kept() -> None:
    assert closest(-0.5) == Form(Fraction(1, 2), sign=-1)
