"""Approximate GPU instructions with the errors that the manuals state (PTX ISA, "Floating Point Instructions"; CUDA C++
Programming Guide, "Mathematical Functions").

Modelled is where digits are lost: a sine far from zero, a logarithm near 1. Results near there may be as far off as the
hardware's; elsewhere they are as good as single precision.

Not guaranteed: the exact digits of a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_TURN = np.float32(0.15915494309189535)
_SINE_STEP, _LOG_STEP = 2.0**-20, 2.0**-21
"""Twice the largest absolute error of `sin.approx` within a period, and of `lg2.approx` between a half and two."""
_TANH_BITS = 11
"""Correct bits of `tanh.approx`."""
_LARGEST_DIVISOR = 2.0**126
"""Divisors beyond this make `div.approx` return 0."""


def _single(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).astype(np.float32)


def _of_turns(function: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
    """Sine or cosine, with the angle divided by a full turn in single precision."""
    turns = _single(x) * _TURN
    angle = 2.0 * np.pi * (turns - np.rint(turns)).astype(np.float64)
    return np.where(np.isfinite(turns), np.rint(function(angle) / _SINE_STEP) * _SINE_STEP, np.nan)


def sine(x: np.ndarray) -> np.ndarray:
    """`sin.approx.f32`."""
    return _of_turns(np.sin, x)


def cosine(x: np.ndarray) -> np.ndarray:
    """`cos.approx.f32`."""
    return _of_turns(np.cos, x)


def tangent(x: np.ndarray) -> np.ndarray:
    """`__tanf`: sine divided by cosine."""
    return sine(x) / cosine(x)


def logarithm(x: np.ndarray) -> np.ndarray:
    """`lg2.approx.f32`, to the base 2."""
    exact = np.log2(_single(x).astype(np.float64))
    near = np.abs(exact) <= 1.0
    return _single(np.where(near, np.rint(np.where(near, exact, 0.0) / _LOG_STEP) * _LOG_STEP, exact))


def power_of_two(x: np.ndarray) -> np.ndarray:
    """`ex2.approx.f32`."""
    return np.exp2(_single(x))


def exponential(x: np.ndarray, base: float = np.e) -> np.ndarray:
    """`__expf`, `__exp10f`: the exponent is scaled in single precision."""
    return power_of_two(_single(x) * np.float32(np.log2(base)))


def power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`__powf`."""
    return power_of_two(_single(y) * logarithm(x))


def hyperbolic_tangent(x: np.ndarray) -> np.ndarray:
    """`tanh.approx.f32`."""
    fraction, exponent = np.frexp(np.tanh(_single(x).astype(np.float64)))
    return np.ldexp(np.rint(fraction * 2.0**_TANH_BITS) / 2.0**_TANH_BITS, exponent)


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """`__fdividef`."""
    far = (np.abs(y) > _LARGEST_DIVISOR) & np.isfinite(y)
    return np.where(far, np.where(np.isinf(x), np.nan, 0.0), _single(x) / _single(y))
