"""ATen's operators on `Exact` arrays, written in exact arithmetic.

    call(calculator, "aten.add.Tensor", (x, y), {"alpha": 2})

An argument is an `Exact`, a tensor of known numbers, or anything else that operators take. Operators that only move
elements (views, gathers, concatenations, pads) are in `moves.py`. Raises NotExact for an unknown operator, and for a
conversion of unknown values to integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from kernelwright.verify.exact import field
from kernelwright.verify.exact.functions import Parity
from kernelwright.verify.exact.moves import MOVES, Operand, exact, move, plain
from kernelwright.verify.exact.order import Calculator
from kernelwright.verify.exact.values import Exact, NotExact
from kernelwright.verify.exact.windows import average_pool, convolve, max_pool

Handler = Callable[..., Any]
Dims = int | Sequence[int] | None
Maybe = Operand | None


def call(calculator: Calculator, function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The result of an ATen overload: by torch if all numbers are known, else exactly."""
    if not any(isinstance(one, Exact | Unknown) for one in _leaves((args, kwargs))):
        return function(*args, **kwargs)
    if any(isinstance(one, Unknown) for one in _leaves((args, kwargs))):
        return Unknown()
    name = function._schema.name.split("::")[-1]
    if name.endswith("_") and not name.endswith("__"):
        name = name[:-1]  # the caller stores results in place
    if name in MOVES:
        return move(calculator, function, args, kwargs)
    if name not in _HANDLERS:
        raise NotExact(f"torch's {name}")
    found = _HANDLERS[name](calculator, *args, **kwargs)
    return tuple(map(_constant, found)) if isinstance(found, tuple) else _constant(found)


class Unknown:
    """A result without an exact value."""


def _leaves(tree: object) -> list[object]:
    if isinstance(tree, list | tuple):
        return [leaf for item in tree for leaf in _leaves(item)]
    if isinstance(tree, dict):
        return [leaf for item in tree.values() for leaf in _leaves(item)]
    return [tree]


def _constant(value: object) -> object:
    return torch.from_numpy(np.ascontiguousarray(value)) if isinstance(value, np.ndarray) else value


# -- helpers ---------------------------------------------------------------------------------------------------


def _axes(value: Exact, dims: Dims) -> list[int]:
    if dims is None or dims == []:
        return list(range(value.ndim))
    return [dim % value.ndim for dim in ([dims] if isinstance(dims, int) else dims)] if value.ndim else []


def _reduce(value: Exact, dims: Dims, keepdim: bool, along: Callable[[Exact, int], Exact]) -> Exact:
    """Reduce over several axes, merged into one."""
    axes = _axes(value, dims)
    if not axes:
        return value
    rest = [axis for axis in range(value.ndim) if axis not in axes]
    order = [*rest, *axes]
    kept = tuple(value.shape[axis] for axis in rest)
    moved = value.mapped(lambda planes: planes.transpose(0, *(axis + 1 for axis in order)))
    made = along(moved.reshape(*kept, math.prod(value.shape[axis] for axis in axes)), len(rest))
    if keepdim:
        made = made.reshape(*(1 if axis in axes else extent for axis, extent in enumerate(value.shape)))
    return made


def _count(value: Exact, dims: Dims) -> int:
    return math.prod(value.shape[axis] for axis in _axes(value, dims))


def _sum(
    c: Calculator, x: Operand, dims: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Exact:
    return _reduce(exact(c, x), dims, keepdim, c.sum)


def _mean(
    c: Calculator, x: Operand, dims: Dims = None, keepdim: bool = False, dtype: torch.dtype | None = None
) -> Exact:
    value = exact(c, x)
    return c.multiply(_reduce(value, dims, keepdim, c.sum), 1.0 / _count(value, dims))


def _variance(
    c: Calculator, x: Operand, dims: Dims = None, *, correction: float | None = None, keepdim: bool = False
) -> Exact:
    value = exact(c, x)
    gap = c.subtract(value, _mean(c, value, dims, True))
    free = _count(value, dims) - (1 if correction is None else correction)
    return c.divide(_sum(c, c.multiply(gap, gap), dims, keepdim), float(free))


def _norm(
    c: Calculator, x: Operand, order: float = 2, dims: Dims = None, keepdim: bool = False, **_: object
) -> Exact:
    value = exact(c, x)
    if order == 2:
        return c.sqrt(_sum(c, c.multiply(value, value), dims, keepdim))
    if order == 1:
        return _sum(c, c.absolute(value), dims, keepdim)
    if order == math.inf:
        return _reduce(c.absolute(value), dims, keepdim, c.maximum_over)
    return c.power(_sum(c, c.power(c.absolute(value), order), dims, keepdim), 1.0 / order)


def _extreme(along: str) -> Handler:
    def handler(c: Calculator, x: Operand, dims: Dims = None, keepdim: bool = False) -> object:
        made = _reduce(exact(c, x), dims, keepdim, getattr(c, along))
        return made if dims is None or isinstance(dims, list | tuple) else (made, Unknown())

    return handler


def _softmax(c: Calculator, x: Operand, dim: int, *_: object, **__: object) -> Exact:
    powers = c.exp(exact(c, x)).plain()
    return c.divide(powers, _sum(c, powers, dim, True))


def _log_softmax(c: Calculator, x: Operand, dim: int, *_: object, **__: object) -> Exact:
    value = exact(c, x)
    return c.subtract(value, c.log(_sum(c, c.exp(value).plain(), dim, True)))


def _affine(c: Calculator, x: Exact, weight: Maybe, bias: Maybe, axes: Sequence[int]) -> Exact:
    """Apply a weight and a bias along some axes."""
    shape = [x.shape[axis] if axis in axes else 1 for axis in range(x.ndim)]
    if weight is not None:
        x = c.multiply(x, exact(c, weight).plain().reshape(*shape))
    return x if bias is None else c.add(x, exact(c, bias).plain().reshape(*shape))


def _layer_norm(
    c: Calculator, x: Operand, shape: Sequence[int], weight: Maybe, bias: Maybe, eps: float
) -> tuple[Exact, ...]:
    value = exact(c, x)
    axes = list(range(value.ndim - len(shape), value.ndim))
    mean, spread = _mean(c, value, axes, True), _variance(c, value, axes, correction=0, keepdim=True)
    inverse = c.rsqrt(c.add(spread, eps))
    return _affine(c, c.multiply(c.subtract(value, mean), inverse), weight, bias, axes), mean, inverse


def _rms_norm(
    c: Calculator, x: Operand, shape: Sequence[int], weight: Maybe = None, eps: float | None = None
) -> tuple[Exact, ...]:
    value = exact(c, x)
    axes = list(range(value.ndim - len(shape), value.ndim))
    inverse = c.rsqrt(c.add(_mean(c, c.multiply(value, value), axes, True), 2.0**-23 if eps is None else eps))
    return _affine(c, c.multiply(value, inverse), weight, None, axes), inverse


def _group_norm(
    c: Calculator, x: Operand, weight: Maybe, bias: Maybe, n: int, ch: int, hw: int, groups: int, eps: float
) -> tuple[Exact, ...]:
    value = exact(c, x)
    rows = value.plain().reshape(n, groups, ch // groups * hw)
    mean, spread = _mean(c, rows, [2], True), _variance(c, rows, [2], correction=0, keepdim=True)
    inverse = c.rsqrt(c.add(spread, eps))
    made = c.multiply(c.subtract(rows, mean), inverse).plain().reshape(*value.shape)
    return _affine(c, made, weight, bias, [1]), mean.reshape(n, groups), inverse.reshape(n, groups)


def _batch_norm(
    c: Calculator, x: Operand, weight: Maybe, bias: Maybe, mean: Operand, var: Operand, eps: float
) -> Exact:
    value = exact(c, x)
    shape = [extent if axis == 1 else 1 for axis, extent in enumerate(value.shape)]
    centred = c.subtract(value, exact(c, mean).plain().reshape(*shape))
    scaled = c.multiply(centred, c.rsqrt(c.add(exact(c, var).plain().reshape(*shape), eps)))
    return _affine(c, scaled, weight, bias, [1])


def _batch_norm_legit(c: Calculator, x: Operand, w: Operand, b: Maybe, *rest: Any) -> tuple[object, ...]:
    """With running statistics or without; in training the functional form returns new ones."""
    value = exact(c, x)
    mean_var, (training, momentum, eps) = list(rest[:-3]), rest[-3:]
    if not training:
        mean, var = mean_var
        return _batch_norm(c, value, w, b, mean, var, eps), Unknown(), Unknown(), mean, var
    axes = [axis for axis in range(value.ndim) if axis != 1]
    mean, var = _mean(c, value, axes), _variance(c, value, axes, correction=0)
    made = _batch_norm(c, value, w, b, mean, var, eps)
    inverse = c.rsqrt(c.add(var, eps))
    if not mean_var or mean_var[0] is None:
        return made, mean, inverse
    count = _count(value, axes)
    unbiased = c.multiply(var, count / (count - 1.0))
    new = [c.add(c.multiply(exact(c, old), 1.0 - momentum), c.multiply(now, momentum))
           for old, now in zip(mean_var, (mean, unbiased), strict=True)]  # fmt: skip
    return made, mean, inverse, *new


def _attention(
    c: Calculator, q: Operand, k: Operand, v: Operand, *rest: object, **given: Any
) -> tuple[object, ...]:
    causal = bool(given.get("is_causal", rest[1] if len(rest) > 1 else False))
    scale = given.get("scale")
    query, key, value = (exact(c, one) for one in (q, k, v))
    turned = key.mapped(lambda planes: planes.swapaxes(-1, -2))
    scores = c.multiply(c.matmul(query, turned), 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if given.get("attn_mask") is not None:
        scores = c.add(scores, exact(c, given["attn_mask"]))
    if causal:
        kept = np.tril(np.ones(scores.shape[-2:], dtype=bool))
        scores = c.select(kept, scores, -math.inf)
    return c.matmul(_softmax(c, scores, -1), value), Unknown()


def _attention_in_full(
    c: Calculator, q: Operand, k: Operand, v: Operand, attn_mask: Maybe = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> object:  # fmt: skip
    """`scaled_dot_product_attention`, of which torch makes one of the others."""
    if enable_gqa or getattr(attn_mask, "dtype", None) == torch.bool:
        raise NotExact("attention with shared heads or a mask of truth values")
    return _attention(c, q, k, v, dropout_p, is_causal, attn_mask=attn_mask, scale=scale)[0]


def _gelu(c: Calculator, x: Operand, approximate: str = "none") -> Exact:
    value = exact(c, x)
    if approximate == "none":
        bent = c.function("erf", c.multiply(value, 1.0 / math.sqrt(2.0)), "odd")
    else:
        cube = c.multiply(c.power(value, 3), 0.044715)
        bent = c.tanh(c.multiply(c.add(value, cube), math.sqrt(2.0 / math.pi)))
    return c.multiply(c.multiply(value, 0.5), c.add(bent, 1.0))


def _elu(
    c: Calculator, x: Operand, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0
) -> Exact:
    value = exact(c, x)
    low = c.multiply(c.subtract(c.exp(c.multiply(value, input_scale)).plain(), 1.0), alpha)
    return c.multiply(c.select(c.compare("greater", value, 0), value, low), scale)


def _leaky(c: Calculator, x: Operand, slope: Operand = 0.01) -> Exact:
    value = exact(c, x)
    return c.select(c.compare("greater", value, 0), value, c.multiply(value, plain(slope)))


def _softplus(c: Calculator, x: Operand, beta: float = 1.0, threshold: float = 20.0) -> Exact:
    value = exact(c, x)
    steep = value if beta == 1 else c.multiply(value, beta)
    soft = c.softplus(steep)
    chosen = c.select(c.compare("greater", steep, float(threshold)), steep, soft)
    return chosen if beta == 1 else c.divide(chosen, beta)


def _clamp(c: Calculator, x: Operand, low: Maybe = None, high: Maybe = None) -> Exact:
    value = exact(c, x)
    if low is not None:
        value = c.maximum(value, plain(low))
    return value if high is None else c.minimum(value, plain(high))


def _cast(c: Calculator, x: Operand, dtype: torch.dtype | None = None, **rest: Any) -> object:
    dtype = rest.get("dtype", dtype)
    value = exact(c, x)
    if dtype is None:
        return value
    if dtype.is_floating_point:
        return value if value.kind == "f" else value.plain("f")
    if dtype == torch.bool:
        return value if value.kind == "b" else c.compare("not_equal", value, 0)
    if value.kind == "f":
        raise NotExact("integers from data")
    return value.plain("i")


def _product(c: Calculator, x: Operand, y: Operand) -> Exact:
    a, b = exact(c, x), exact(c, y)
    if a.ndim == 1 and b.ndim == 1:
        return c.sum(c.multiply(a, b), 0)
    if b.ndim == 1:
        return c.matmul(a, b.reshape(b.shape[0], 1)).reshape(*a.shape[:-1])
    if a.ndim == 1:
        return c.matmul(a.reshape(1, a.shape[0]), b).reshape(*b.shape[:-2], b.shape[-1])
    extra = max(a.ndim, b.ndim)
    a, b = (one.reshape(*(1,) * (extra - one.ndim), *one.shape) for one in (a, b))
    return c.matmul(a, b)


def _addmm(
    c: Calculator, base: Operand, x: Operand, y: Operand, *, beta: float = 1, alpha: float = 1
) -> Exact:
    made = _product(c, x, y)
    made = made if alpha == 1 else c.multiply(made, alpha)
    if beta == 0:
        return made
    return c.add(made, exact(c, base) if beta == 1 else c.multiply(exact(c, base), beta))


def _linear(c: Calculator, x: Operand, weight: Operand, bias: Maybe = None) -> Exact:
    turned = exact(c, weight).mapped(lambda planes: planes.swapaxes(-1, -2))
    made = _product(c, x, turned)
    return made if bias is None else c.add(made, exact(c, bias))


def _scatter(c: Calculator, base: Operand, places: torch.Tensor, values: Operand) -> Exact:
    """`base` with `values` added at the flat indices `places`."""
    into, added = exact(c, base), exact(c, values)
    if into.special or added.special:
        raise NotExact("a scatter of infinite or undefined elements")
    levels = min(into.levels, added.levels)
    index = places.to(torch.int64).reshape(-1).numpy()
    rows = np.broadcast_to(added.planes[:levels], (levels, *places.shape)).reshape(levels, -1)
    made = np.zeros((levels, into.size), dtype=np.int64)
    for level in range(levels):
        np.add.at(made[level], index, rows[level])
    primes = np.array(field.PRIMES[:levels], dtype=np.int64).reshape(-1, *(1,) * into.ndim)
    return c.add(into, Exact(made.reshape(levels, *into.shape) % primes))


def _places(c: Calculator, base: Operand) -> torch.Tensor:
    shape = exact(c, base).shape
    return torch.arange(math.prod(shape)).reshape(shape)


def _scatter_add(c: Calculator, base: Operand, dim: int, index: torch.Tensor, source: Operand) -> Exact:
    value = exact(c, source)
    window = tuple(slice(0, extent) for extent in index.shape)
    added = value.mapped(lambda planes: planes[(slice(None), *window)])
    return _scatter(c, base, _places(c, base).gather(dim, index), added)


def _index_add(
    c: Calculator, base: Operand, dim: int, index: torch.Tensor, source: Operand, *, alpha: float = 1
) -> Exact:
    value = exact(c, source) if alpha == 1 else c.multiply(exact(c, source), alpha)
    return _scatter(c, base, _places(c, base).index_select(dim, index), value)


def _index_put(
    c: Calculator, base: Operand, indices: Any, values: Operand, accumulate: bool = False
) -> Exact:
    places = _places(c, base)[tuple(slice(None) if one is None else one for one in indices)]
    if accumulate:
        return _scatter(c, base, places, values)
    into, added = c.aligned(exact(c, base).plain(), 0)[0], exact(c, values)
    levels = min(into.levels, added.levels)
    planes = into.planes[:levels].reshape(levels, -1).copy()
    rows = np.broadcast_to(added.planes[:levels], (levels, *places.shape)).reshape(levels, -1)
    planes[:, places.reshape(-1).numpy()] = rows
    return Exact(planes.reshape(levels, *into.shape), into.special or added.special)


def _shaped(fill: Callable[..., torch.Tensor]) -> Handler:
    """A handler for operators that use only the shape of their argument."""

    def handler(c: Calculator, x: Operand, *args: object, **kwargs: object) -> torch.Tensor:
        options = {"dtype": kwargs.get("dtype") or torch.float32}
        return fill(exact(c, x).shape, *args, **options)

    return handler


def _new(fill: Callable[..., torch.Tensor]) -> Handler:
    def handler(
        c: Calculator, x: Operand, shape: Sequence[int], *args: object, **kwargs: object
    ) -> torch.Tensor:
        return fill(shape, *args, dtype=kwargs.get("dtype") or torch.float32)

    return handler


# -- the table ---------------------------------------------------------------------------------------------------


def _one(name: str, *fixed: object) -> Handler:
    """A method of the calculator on one array."""
    return lambda c, x, *_, **__: getattr(c, name)(exact(c, x), *fixed)


def _known_function(name: str, parity: Parity = "") -> Handler:
    return lambda c, x, *_, **__: c.function(name, exact(c, x), parity)


def _two(name: str) -> Handler:
    return lambda c, x, y: getattr(c, name)(exact(c, x), plain(y))


def _compare(name: str) -> Handler:
    return lambda c, x, y: c.compare(name, exact(c, x), plain(y))


def _scale(c: Calculator, y: Operand, alpha: float) -> Operand:
    return plain(y) if alpha == 1 else c.multiply(plain(y), alpha)


def _divide(c: Calculator, x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Exact:
    if rounding_mode is not None:
        raise NotExact("a rounded quotient of data")
    if isinstance(y, int | float) and y:
        return c.multiply(exact(c, x), 1.0 / y)
    return c.divide(exact(c, x), plain(y))


_HANDLERS: dict[str, Handler] = {
    "add": lambda c, x, y, alpha=1: c.add(exact(c, x), _scale(c, y, alpha)),
    "sub": lambda c, x, y, alpha=1: c.subtract(exact(c, x), _scale(c, y, alpha)),
    "rsub": lambda c, x, y, alpha=1: c.subtract(plain(y), c.multiply(exact(c, x), alpha)),
    "mul": _two("multiply"), "div": _divide, "true_divide": _divide, "neg": _one("negative"),
    "reciprocal": _one("reciprocal"), "square": lambda c, x: c.multiply(x, x), "maximum": _two("maximum"),
    "minimum": _two("minimum"), "fmax": _two("maximum"), "fmin": _two("minimum"),
    "exp": _one("exp"), "exp2": _one("exp2"), "expm1": lambda c, x: c.subtract(c.exp(x), 1.0), "log": _one("log"),
    "log2": lambda c, x: c.divide(c.log(x), math.log(2.0)), "log10": lambda c, x: c.divide(c.log(x), math.log(10.0)),
    "log1p": _one("log1p"), "sqrt": _one("sqrt"), "rsqrt": _one("rsqrt"), "sigmoid": _one("sigmoid"), "tanh": _one("tanh"),
    "sinh": lambda c, x: c.hyperbolic("sinh", x), "cosh": lambda c, x: c.hyperbolic("cosh", x),
    "pow": lambda c, x, y: c.power(exact(c, x), plain(y)), "abs": _one("absolute"), "sign": _one("sign"),
    "erf": _known_function("erf", "odd"), "erfc": lambda c, x: c.subtract(1.0, c.function("erf", x, "odd")),
    "sin": _known_function("sin", "odd"), "cos": _known_function("cos", "even"), "tan": _known_function("tan", "odd"),
    "atan": _known_function("atan", "odd"), "asin": _known_function("asin", "odd"), "asinh": _known_function("asinh", "odd"),
    "acos": _known_function("acos"), "acosh": _known_function("acosh"), "atanh": _known_function("atanh", "odd"),
    "floor": _known_function("floor"), "ceil": _known_function("ceil"), "trunc": _known_function("trunc", "odd"),
    "round": _known_function("round", "odd"), "lgamma": _known_function("lgamma"), "digamma": _known_function("digamma"),
    "relu": lambda c, x: c.maximum(x, 0), "leaky_relu": _leaky, "elu": _elu, "gelu": _gelu, "softplus": _softplus,
    "silu": lambda c, x: c.multiply(x, c.sigmoid(x)), "hardtanh": lambda c, x, low=-1.0, high=1.0: _clamp(c, x, low, high),
    "mish": lambda c, x: c.multiply(x, c.tanh(_softplus(c, x))),
    "log_sigmoid_forward": lambda c, x: (c.negative(c.softplus(c.negative(x))), Unknown()),
    "clamp": _clamp, "clamp_min": lambda c, x, low: _clamp(c, x, low), "clamp_max": lambda c, x, high: _clamp(c, x, None, high),
    "gt": _compare("greater"), "ge": _compare("greater_equal"), "lt": _compare("less"), "le": _compare("less_equal"),
    "eq": _compare("equal"), "ne": _compare("not_equal"),
    "logical_not": lambda c, x: c.invert(_cast(c, x, torch.bool)), "bitwise_not": lambda c, x: c.invert(x),
    "logical_and": lambda c, x, y: c.both(plain(x), plain(y)), "bitwise_and": lambda c, x, y: c.both(plain(x), plain(y)),
    "logical_or": lambda c, x, y: c.either(plain(x), plain(y)), "bitwise_or": lambda c, x, y: c.either(plain(x), plain(y)),
    "isnan": lambda c, x: c.compare("not_equal", x, x), "where": lambda c, s, x, y: c.select(plain(s), plain(x), plain(y)),
    "masked_fill": lambda c, x, s, y: c.select(plain(s), plain(y), exact(c, x)),
    "hypot": lambda c, x, y: c.sqrt(c.add(c.power(exact(c, x), 2), c.power(exact(c, plain(y)), 2))),
    "lerp": lambda c, x, y, w: c.add(x, c.multiply(plain(w), c.subtract(plain(y), x))),
    "sum": _sum, "mean": _mean, "var": _variance, "amax": _extreme("maximum_over"),
    "std": lambda c, x, dims=None, **k: c.sqrt(_variance(c, x, dims, **k)),
    "var_mean": lambda c, x, dims=None, **k: (_variance(c, x, dims, **k), _mean(c, x, dims, k.get("keepdim", False))),
    "amin": _extreme("minimum_over"), "max": _extreme("maximum_over"), "min": _extreme("minimum_over"),
    "linalg_vector_norm": _norm, "cumsum": lambda c, x, dim, dtype=None: c.running_sum(exact(c, x), dim),
    "cumprod": lambda c, x, dim, dtype=None: c.running_product(exact(c, x), dim),
    "prod": lambda c, x, dim=None, keepdim=False, dtype=None: _reduce(exact(c, x), dim, keepdim, c.product),
    "_softmax": _softmax, "_log_softmax": _log_softmax,
    "logsumexp": lambda c, x, dims, keepdim=False: c.log(_sum(c, c.exp(exact(c, x)).plain(), dims, keepdim)),
    "native_layer_norm": _layer_norm, "native_group_norm": _group_norm, "_fused_rms_norm": _rms_norm,
    "rms_norm": lambda *given: _rms_norm(*given)[0],
    "_native_batch_norm_legit_no_training": lambda c, x, w, b, mean, var, _, eps: (
        _batch_norm(c, x, w, b, mean, var, eps), Unknown(), Unknown()
    ),
    "_native_batch_norm_legit": _batch_norm_legit,
    "_native_batch_norm_legit_functional": _batch_norm_legit, "native_batch_norm": _batch_norm_legit,
    "cudnn_batch_norm": _batch_norm_legit,
    "mm": _product, "bmm": _product, "matmul": _product, "mv": _product, "dot": _product, "addmm": _addmm, "baddbmm": _addmm,
    "addmv": _addmm, "linear": _linear,
    "addcmul": lambda c, x, y, z, value=1: c.add(exact(c, x), c.multiply(c.multiply(plain(y), plain(z)), value)),
    "addcdiv": lambda c, x, y, z, value=1: c.add(exact(c, x), c.multiply(c.divide(plain(y), plain(z)), value)),
    "_scaled_dot_product_flash_attention_for_cpu": _attention, "_scaled_dot_product_flash_attention": _attention,
    "scaled_dot_product_attention": _attention_in_full,
    "_scaled_dot_product_efficient_attention": _attention, "_scaled_dot_product_attention_math": _attention,
    "convolution": convolve, "max_pool2d_with_indices": lambda *g, **k: (max_pool(*g, **k), Unknown()),
    "max_pool3d_with_indices": lambda *g, **k: (max_pool(*g, **k), Unknown()), "max_pool2d": max_pool,
    "max_pool1d": max_pool, "avg_pool1d": average_pool, "avg_pool2d": average_pool, "avg_pool3d": average_pool,
    "_adaptive_avg_pool2d": lambda c, x, size: _adaptive(c, exact(c, x), size),
    "_adaptive_avg_pool3d": lambda c, x, size: _adaptive(c, exact(c, x), size),
    "adaptive_avg_pool1d": lambda c, x, size: _adaptive(c, exact(c, x), size),
    "adaptive_avg_pool2d": lambda c, x, size: _adaptive(c, exact(c, x), size),
    "_to_copy": _cast, "convert_element_type": _cast, "to": _cast,
    "copy": lambda c, x, y, *_: c.aligned(exact(c, y).plain(), np.zeros(exact(c, x).shape, dtype=np.int64))[0],
    "fill": lambda c, x, y: c.aligned(plain(y), np.zeros(exact(c, x).shape, dtype=np.int64))[0],
    "index_put": _index_put, "_unsafe_index_put": _index_put, "scatter_add": _scatter_add, "index_add": _index_add,
    "zeros_like": _shaped(torch.zeros), "ones_like": _shaped(torch.ones), "full_like": _shaped(torch.full),
    "empty_like": _shaped(torch.zeros), "new_zeros": _new(torch.zeros), "new_ones": _new(torch.ones),
    "new_full": _new(torch.full), "new_empty": _new(torch.zeros),
}  # fmt: skip


def _adaptive(c: Calculator, x: Exact, size: Sequence[int]) -> Exact:
    """Adaptive average pool: means over windows that divide each axis into `size` parts, which may overlap by one."""
    for place, count in enumerate(reversed(list(size))):
        axis = x.ndim - 1 - place
        extent, parts = x.shape[axis], []
        for part in range(count):
            low, high = part * extent // count, -(-(part + 1) * extent // count)
            window = x.taken(np.arange(low, high), axis)
            parts.append(c.multiply(c.sum(window, axis), 1.0 / (high - low)))
        x = Exact(np.stack([one.planes for one in parts], axis=axis + 1), x.special)
    return x
