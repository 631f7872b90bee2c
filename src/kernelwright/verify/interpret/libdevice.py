"""CUDA's libdevice functions on numpy arrays, by the symbol that Triton calls.

Names are as in NVIDIA's "libdevice User's Guide", without `__nv_` and the `f` of single precision. Functions that numpy lacks
are torch's, in double precision. A directed rounding is a rounding to nearest, corrected by one step where it went the
other way.

Not guaranteed: the last digits, which differ between libdevice and any host library.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from kernelwright.verify.interpret import approximate
from kernelwright.verify.interpret.number_formats import flush

Function = Callable[..., Any]


def _torch(function: Callable[..., torch.Tensor]) -> Function:
    """A torch function on arrays, in double precision."""

    def called(*given: np.ndarray) -> np.ndarray:
        found: np.ndarray = function(*(torch.from_numpy(one.astype(np.float64)) for one in given)).numpy()
        return found

    return called


def _one_by_one(function: Callable[..., float], kind: type = np.float64) -> Function:
    return np.vectorize(function, otypes=[kind])


def _gamma(x: float) -> float:
    try:
        return math.gamma(x)
    except OverflowError:
        return math.inf
    except ValueError:
        return math.nan


def _bessel(first: Function, second: Function, n: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Order n from orders 0 and 1 by forward recurrence; stable for J if n < x, for Y always."""
    before: np.ndarray = first(x)
    here: np.ndarray = second(x)
    found: np.ndarray = np.where(n == 0, before, here)
    for order in range(1, int(min(n.max(), 256))):
        before, here = here, 2.0 * order / x.astype(np.float64) * here - before
        found = np.where(n == order + 1, here, found)
    return found


def _high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Upper half of a product."""
    bits = 8 * a.dtype.itemsize
    wide = a.astype(object) * b.astype(object)
    made: np.ndarray = np.asarray(wide >> bits, dtype=object).astype(a.dtype)
    return made


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


def popc(x: np.ndarray) -> np.ndarray:
    return np.bitwise_count(_bits(x)).astype(np.int32)


def clz(x: np.ndarray) -> np.ndarray:
    bits, width = _bits(x), 8 * x.dtype.itemsize
    reached = np.zeros(x.shape, dtype=np.int32)
    for at in range(width):
        reached += (bits >> bits.dtype.type(at)) != 0
    return width - reached


def brev(x: np.ndarray) -> np.ndarray:
    bits, width = _bits(x), 8 * x.dtype.itemsize
    made = np.zeros_like(bits)
    for at in range(width):
        made |= ((bits >> bits.dtype.type(at)) & bits.dtype.type(1)) << bits.dtype.type(width - 1 - at)
    return made.view(x.dtype)


def byte_perm(a: np.ndarray, b: np.ndarray, selector: np.ndarray) -> np.ndarray:
    """PTX `prmt` in its default mode."""
    both = _bits(a).astype(np.uint64) | _bits(b).astype(np.uint64) << np.uint64(32)
    made = np.zeros(np.broadcast_shapes(a.shape, b.shape, selector.shape), dtype=np.uint32)
    for place in range(4):
        nibble = (_bits(selector) >> np.uint32(4 * place)) & np.uint32(0xF)
        byte = (both >> (np.uint64(8) * (nibble & np.uint32(7)).astype(np.uint64))) & np.uint64(0xFF)
        sign = np.where(byte & np.uint64(0x80), np.uint64(0xFF), np.uint64(0))
        byte = np.where(nibble & np.uint32(8), sign, byte)
        made |= byte.astype(np.uint32) << np.uint32(8 * place)
    return made.view(a.dtype)


def round_directed(exact: np.ndarray, kind: np.dtype, direction: str) -> np.ndarray:
    """`exact`, which has more digits, rounded to a narrower type: to nearest (n), up (u), down (d), or towards zero (z)."""
    made = exact.astype(kind)
    back = made.astype(exact.dtype)
    if direction == "z":
        wrong = np.abs(back) > np.abs(exact)
        target = np.zeros_like(made)
    elif direction in "ud":
        wrong = back < exact if direction == "u" else back > exact
        target = np.full_like(made, np.inf if direction == "u" else -np.inf)
    else:
        return made
    return np.where(wrong, np.nextafter(made, target), made)


def saturate_to(x: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Floats to integers as PTX converts them: clamped to the type's range, NaN to 0."""
    limits = np.iinfo(kind)
    wide = np.nan_to_num(x.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
    inside = np.clip(wide, -(2.0**63), 2.0**63 - 1024)
    signed = kind.kind == "i"
    made = inside.astype(np.int64) if signed else np.clip(wide, 0, 2.0**64 - 2048).astype(np.uint64)
    made = np.clip(made, limits.min, limits.max).astype(kind)
    made = np.where(wide >= limits.max, limits.max, made)
    found: np.ndarray = np.where(wide <= limits.min, limits.min, made).astype(kind)
    return found


_ROUND: dict[str, Function] = {"n": np.rint, "z": np.trunc, "u": np.ceil, "d": np.floor}
_OPERATE: dict[str, Function] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "rcp": lambda x: 1.0 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "fma": lambda x, y, z: x * y + z,
}
_WHOLE: dict[str, np.dtype[Any]] = {
    "int": np.dtype(np.int32),
    "uint": np.dtype(np.uint32),
    "ll": np.dtype(np.int64),
    "ull": np.dtype(np.uint64),
}
_DIRECTED = re.compile(r"[fd]?(add|sub|mul|div|rcp|sqrt|rsqrt|fma)f?_r([nduz])$")
_TO_WHOLE = re.compile(r"(?:float|double)2(int|uint|ll|ull)_r([nduz])$")
_FROM_WHOLE = re.compile(r"(?:int|uint|ll|ull|double)2(float|double)_r([nduz])$")


def find(symbol: str) -> Function | None:
    """The function of a symbol on arrays, or None. The caller knows the result's type."""
    name = symbol.removeprefix("__nv_")
    return _TABLE.get(name) or _TABLE.get(re.sub("[fdi]$", "", name)) or _by_pattern(name)


@functools.lru_cache(maxsize=512)
def _by_pattern(name: str) -> Function | None:
    if match := _DIRECTED.match(name):
        operate, direction = _OPERATE[match[1]], match[2]

        def rounded(*given: np.ndarray) -> np.ndarray:
            kind = given[0].dtype
            wide = np.float64 if kind == np.float32 else np.longdouble
            return round_directed(operate(*(one.astype(wide) for one in given)), kind, direction)

        return rounded
    if match := _TO_WHOLE.match(name):
        whole, round_ = _WHOLE[match[1]], _ROUND[match[2]]
        return lambda x: saturate_to(round_(x.astype(np.float64)), whole)
    if match := _FROM_WHOLE.match(name):
        to, direction = np.dtype(np.float32 if match[1] == "float" else np.float64), match[2]
        return lambda x: round_directed(x.astype(np.longdouble), to, direction)
    return None


def _flushing(function: Function) -> Function:
    """A function that is `.ftz` in single precision."""
    return lambda x: flush(function(flush(x)))


def _rounded_away(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.trunc(x + np.copysign(0.5, x))
    return found


def _norm(*given: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.sqrt(np.sum([one.astype(np.float64) ** 2 for one in given], axis=0))
    return found


_j0, _j1 = _torch(torch.special.bessel_j0), _torch(torch.special.bessel_j1)
_y0, _y1 = _torch(torch.special.bessel_y0), _torch(torch.special.bessel_y1)
_AS_IN_NUMPY = """
    exp exp2 expm1 log log1p log2 log10 ldexp sqrt cbrt hypot sin cos tan sinh cosh tanh floor ceil trunc rint fmod fmin fmax
    copysign nextafter isnan isinf isfinite signbit"""
_TABLE: dict[str, Function] = {
    **{name: getattr(np, name) for name in _AS_IN_NUMPY.split()},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "exp10": lambda x: np.power(10.0, x),
    "logb": lambda x: np.frexp(x)[1] - 1.0,
    "ilogb": lambda x: np.frexp(x)[1] - 1,
    "pow": np.power,
    "powi": lambda x, n: np.power(x, n.astype(x.dtype)),
    "scalbn": np.ldexp,
    **{
        name: _flushing(function)
        for name, function in (("sqrt", np.sqrt), ("rsqrt", _OPERATE["rsqrt"]), ("exp2", np.exp2))
    },
    "rcbrt": lambda x: 1.0 / np.cbrt(x),
    "rhypot": lambda x, y: 1.0 / np.hypot(x, y),
    "norm3d": _norm,
    "norm4d": _norm,
    "rnorm3d": lambda *given: 1.0 / _norm(*given),
    "rnorm4d": lambda *given: 1.0 / _norm(*given),
    "atan2": np.arctan2,
    "sinpi": lambda x: np.sin(np.pi * x),
    "cospi": lambda x: np.cos(np.pi * x),
    "fabs": np.abs,
    "abs": np.abs,
    "llabs": np.abs,
    "nearbyint": np.rint,
    "llrint": lambda x: saturate_to(np.rint(x), np.dtype(np.int64)),
    "round": _rounded_away,
    "llround": lambda x: saturate_to(_rounded_away(x), np.dtype(np.int64)),
    "remainder": lambda x, y: x - y * np.rint(x / y),
    "fma": lambda x, y, z: x.astype(np.float64) * y + z,
    "fdim": lambda x, y: np.maximum(x - y, 0.0),
    "saturate": lambda x: np.clip(np.nan_to_num(x, nan=0.0), 0.0, 1.0),
    "finite": np.isfinite,
    "erf": _torch(torch.erf),
    "erfc": _torch(torch.erfc),
    "erfinv": _torch(torch.erfinv),
    "erfcinv": _torch(lambda x: torch.erfinv(1.0 - x)),
    "erfcx": _torch(torch.special.erfcx),
    "normcdf": _torch(torch.special.ndtr),
    "normcdfinv": _torch(torch.special.ndtri),
    "lgamma": _torch(torch.lgamma),
    "tgamma": _one_by_one(_gamma),
    "cyl_bessel_i0": _torch(torch.special.i0),
    "cyl_bessel_i1": _torch(torch.special.i1),
    "j0": _j0,
    "j1": _j1,
    "y0": _y0,
    "y1": _y1,
    "jn": lambda n, x: _bessel(_j0, _j1, n, x),
    "yn": lambda n, x: _bessel(_y0, _y1, n, x),
    "fast_exp": approximate.exponential,
    "fast_exp10": lambda x: approximate.exponential(x, 10.0),
    "fast_log": lambda x: approximate.logarithm(x) * np.float32(np.log(2.0)),
    "fast_log2": approximate.logarithm,
    "fast_log10": lambda x: approximate.logarithm(x) * np.float32(np.log10(2.0)),
    "fast_pow": approximate.power,
    "fast_sin": approximate.sine,
    "fast_cos": approximate.cosine,
    "fast_tan": approximate.tangent,
    "fast_tanh": approximate.hyperbolic_tangent,
    "fast_fdivide": approximate.quotient,
    "popc": popc,
    "popcll": popc,
    "clz": clz,
    "clzll": clz,
    "brev": brev,
    "brevll": brev,
    "ffs": lambda x: np.where(x == 0, 0, popc((x & -x) - np.ones_like(x)) + 1),
    "ffsll": lambda x: np.where(x == 0, 0, popc((x & -x) - np.ones_like(x)) + 1),
    "byte_perm": byte_perm,
    "mulhi": _high,
    "mul64hi": _high,
    "umulhi": lambda a, b: _high(_bits(a), _bits(b)),
    "umul64hi": lambda a, b: _high(_bits(a), _bits(b)),
    "mul24": lambda a, b: ((a << 8) >> 8) * ((b << 8) >> 8),
    "umul24": lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF),
    "sad": lambda a, b, c: np.abs(a.astype(np.int64) - b).astype(a.dtype) + c.astype(a.dtype),
    "usad": lambda a, b, c: np.abs(_bits(a).astype(np.int64) - _bits(b)).astype(np.uint32) + _bits(c),
    "hadd": lambda a, b: ((a.astype(np.int64) + b) >> 1).astype(a.dtype),
    "rhadd": lambda a, b: ((a.astype(np.int64) + b + 1) >> 1).astype(a.dtype),
    "uhadd": lambda a, b: ((_bits(a).astype(np.uint64) + _bits(b)) >> np.uint64(1)).astype(np.uint32),
    "urhadd": lambda a, b: ((_bits(a).astype(np.uint64) + _bits(b) + np.uint64(1)) >> np.uint64(1)).astype(
        np.uint32
    ),
    "float_as_int": lambda x: np.ascontiguousarray(x).view(np.int32),
    "float_as_uint": lambda x: np.ascontiguousarray(x).view(np.uint32),
    "int_as_float": lambda x: np.ascontiguousarray(x).view(np.float32),
    "uint_as_float": lambda x: np.ascontiguousarray(x).view(np.float32),
    "double_as_longlong": lambda x: np.ascontiguousarray(x).view(np.int64),
    "longlong_as_double": lambda x: np.ascontiguousarray(x).view(np.float64),
    "double2hiint": lambda x: (_bits(x) >> np.uint64(32)).astype(np.uint32).view(np.int32),
    "double2loint": lambda x: (_bits(x) & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(np.int32),
    "hiloint2double": lambda high, low: (
        _bits(high).astype(np.uint64) << np.uint64(32) | _bits(low).astype(np.uint64)
    ).view(np.float64),
}
