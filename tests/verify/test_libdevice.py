"""Libdevice functions by symbol, including every symbol that Triton offers."""

import re
from pathlib import Path

import numpy as np
import pytest
from triton.language.extra.cuda import libdevice as front

from kernelwright.verify.interpret import libdevice

X = np.array([0.25, 0.5, 1.0, 3.0], dtype=np.float32)


def test_every_symbol_is_known() -> None:
    symbols = set(re.findall(r'"(__nv_\w+)"', Path(front.__file__).read_text()))
    missing = {symbol for symbol in symbols if libdevice.find(symbol) is None}
    assert missing <= {"__nv_rcp64h"}


@pytest.mark.parametrize(
    ("symbol", "given", "expected"),
    [
        ("__nv_hypotf", (X, X), np.hypot(X, X)),
        ("__nv_float2int_ru", (X,), [1, 1, 1, 3]),
        ("__nv_ffs", (np.array([0, 1, 8]),), [0, 1, 4]),
        ("__nv_clz", (np.array([1, 2], dtype=np.int32),), [31, 30]),
        ("__nv_saturatef", (X,), np.clip(X, 0, 1)),
        ("__nv_mulhi", (np.array([2**30], dtype=np.int32), np.array([8], dtype=np.int32)), [2]),
        ("__nv_float_as_int", (np.array([1.0], dtype=np.float32),), [0x3F800000]),
        ("__nv_fmaf", (X, X, X), X * X + X),
        ("__nv_powif", (X, np.array([2, 2, 2, 2], dtype=np.int32)), X * X),
    ],
)
def test_values(symbol: str, given: tuple[np.ndarray, ...], expected: object) -> None:
    function = libdevice.find(symbol)
    assert function is not None
    assert np.allclose(function(*given), expected)


def test_a_direction_of_rounding_is_kept() -> None:
    up, down = libdevice.find("__nv_fdiv_ru"), libdevice.find("__nv_fdiv_rd")
    assert up is not None
    assert down is not None
    one, three = np.ones(1, dtype=np.float32), np.full(1, 3, dtype=np.float32)
    assert float(down(one, three)[0]) < 1 / 3 < float(up(one, three)[0])


def test_orders_of_bessel_functions_follow_from_the_first_two() -> None:
    function = libdevice.find("__nv_jnf")
    assert function is not None
    x = np.full(3, 4.0, dtype=np.float32)
    assert np.allclose(function(np.array([0, 1, 2]), x), [-0.3971498, -0.0660433, 0.3641281], atol=1e-6)
