"""Inline assembly on numpy arrays does what PTX specifies."""

import numpy as np
import pytest

from kernelwright.verify.interpret.ptx import NotEvaluated, evaluate

F4, I4, I8, F2 = np.dtype("f4"), np.dtype("i4"), np.dtype("i8"), np.dtype("f2")
X = np.array([-2.0, -0.5, 0.0, 0.25, 1.0, 3.0, 7.5, 100.0], dtype=np.float32)
N = np.array([-9, -1, 0, 1, 2, 5, 100, 2**30], dtype=np.int32)


def one(text: str, constraints: str, given: list[np.ndarray], kind: np.dtype, pack: int = 1) -> np.ndarray:
    return evaluate(text, constraints, given, [kind], pack)[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("max.f32 $0, $1, 0f00000000;", np.maximum(X, 0)),
        ("fma.rn.f32 $0, $1, $1, 0f3F800000;", X * X + 1),
        ("ex2.approx.ftz.f32 $0, $1;", np.exp2(X)),
        ("abs.f32 $0, $1;", np.abs(X)),
        ("mul.ftz.f32 $0, $1, 0f00000001;", X * 0.0),
        ("{ .reg .f32 %t<2>; add.f32 %t0, $1, $1; mul.f32 $0, %t0, 0f3F000000; }", X),
        (
            "{ .reg .pred p; setp.gt.f32 p, $1, 0f3F800000; selp.f32 $0, $1, 0f3F800000, p; }",
            np.maximum(X, 1),
        ),
        ("{ .reg .pred p; setp.lt.f32 p, $1, 0f00000000; mov.f32 $0, $1; @p neg.f32 $0, $1; }", np.abs(X)),
        ("add.sat.f32 $0, $1, 0f00000000;", np.clip(X, 0, 1)),
        ("// a remark\nneg.f32 $0, $1; /* another */", -X),
    ],
)
def test_floats(text: str, expected: np.ndarray) -> None:
    assert np.array_equal(one(text, "=f,f", [X], F4), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.b32 $0, $1;", N),
        ("shl.b32 $0, $1, 40;", np.zeros_like(N)),
        ("shr.s32 $0, $1, 40;", np.where(N < 0, -1, 0)),
        ("and.b32 $0, $1, 0xFF;", N & 0xFF),
        ("lop3.b32 $0, $1, 3, 5, 0xE8;", (N & 3) | (N & 5) | (3 & 5)),
        ("bfe.u32 $0, $1, 1, 3;", (N >> 1) & 7),
        ("min.s32 $0, $1, 4;", np.minimum(N, 4)),
        ("div.s32 $0, $1, 2;", np.trunc(N / 2).astype(np.int32)),
        ("popc.b32 $0, $1;", [bin(int(n) & 0xFFFFFFFF).count("1") for n in N]),
        ("prmt.b32 $0, $1, $1, 0x0123;", N.byteswap()),
    ],
)
def test_integers(text: str, expected: np.ndarray) -> None:
    assert np.array_equal(one(text, "=r,r", [N], I4), expected)


def test_a_wide_product_has_twice_the_bits() -> None:
    made = one("mul.wide.s32 $0, $1, $1;", "=l,r", [N], I8)
    assert np.array_equal(made, N.astype(np.int64) ** 2)


def test_floats_become_whole_numbers_within_their_type() -> None:
    given = np.array([1e20, -1e20, np.nan, 2.5], dtype=np.float32)
    assert one("cvt.rni.s32.f32 $0, $1;", "=r,f", [given], I4).tolist() == [2**31 - 1, -(2**31), 0, 2]


def test_halves_share_a_register() -> None:
    half = X.astype(np.float16)
    assert np.array_equal(one("max.f16x2 $0, $1, 0;", "=r,r", [half], F2, pack=2), np.maximum(half, 0))


def test_bytes_are_unpacked_four_at_a_time() -> None:
    given = np.arange(8, dtype=np.uint8)
    text = (
        "{ .reg .b8 t<4>; mov.b32 {t0, t1, t2, t3}, $4; cvt.u32.u8 $0, t0; cvt.u32.u8 $1, t1; cvt.u32.u8 $2, t2;"
        " cvt.u32.u8 $3, t3; }"
    )
    assert one(text, "=r,=r,=r,=r,r", [given], I4, pack=4).tolist() == list(range(8))


def test_the_approximate_tangent_has_eleven_digits() -> None:
    made = one("tanh.approx.f32 $0, $1;", "=f,f", [X], F4)
    error = np.abs(made - np.tanh(X)).max()
    assert 0 < error < 2**-11


@pytest.mark.parametrize(
    "text",
    [
        "shfl.sync.idx.b32 $0, $1, 0, 31, -1;",
        "ld.global.f32 $0, [$1];",
        "add.f32 %t, $1, $1;",
        "mov.b32 %t, $1;",
        "cvt.rn.satfinite.e4m3x2.f32 $0, $1, $1;",
    ],
)
def test_what_is_not_known_is_said(text: str) -> None:
    with pytest.raises(NotEvaluated):
        one(text, "=f,f", [X], F4)
