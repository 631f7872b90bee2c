"""Approximate instructions err as far as the hardware may, and no further."""

import numpy as np
import pytest

from kernelwright.verify.interpret import approximate


def test_a_sine_is_right_near_zero_and_loses_digits_far_away() -> None:
    near, far = np.linspace(-3, 3, 99).astype(np.float32), np.linspace(9e3, 9.1e3, 99).astype(np.float32)
    assert np.abs(approximate.sine(near) - np.sin(near.astype(np.float64))).max() < 1e-6
    assert np.abs(approximate.sine(far) - np.sin(far.astype(np.float64))).max() > 1e-4


def test_a_logarithm_near_one_is_right_in_absolute_terms_only() -> None:
    x = np.float32(1.0) + np.linspace(1e-5, 1e-4, 50).astype(np.float32)
    exact = np.log2(x.astype(np.float64))
    error = np.abs(approximate.logarithm(x) - exact)
    assert error.max() < 5e-7
    assert (error / exact).max() > 1e-4


@pytest.mark.parametrize("x", [-88.0, -1.5, 0.0, 3.0, 80.0])
def test_an_exponential_is_nearly_right(x: float) -> None:
    given = np.array([x], dtype=np.float32)
    assert approximate.exponential(given) == pytest.approx(np.exp(np.float64(x)), rel=1e-5)


def test_a_hyperbolic_tangent_has_eleven_bits() -> None:
    x = np.linspace(0.1, 2, 99).astype(np.float32)
    error = np.abs(approximate.hyperbolic_tangent(x) / np.tanh(x.astype(np.float64)) - 1.0)
    assert 1e-5 < error.max() < 2.0**-10


def test_a_quotient_by_a_huge_number_is_zero() -> None:
    x, y = np.array([1e30], dtype=np.float32), np.array([2e38], dtype=np.float32)
    assert approximate.quotient(x, y) == 0.0
