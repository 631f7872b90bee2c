"""Values of a random graph, and elementwise operators on them that are numerically well-behaved.

A value has an interval that contains its elements. An operator is accepted only if, on a grid over its operands' intervals in
float64, it is finite, not large and, unless its operands are arguments, not steep.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from kernelwright.graph.draws import Draw
from kernelwright.synth.building import GraphBuilder, Handle
from kernelwright.synth.extents import Extents, NotDrawn
from kernelwright.synth.spelling import DRAWS

LARGE = 500.0
STEEP = 40.0
"""Largest slope of an operator on a computed value."""
_GRID = 65
_ATTEMPTS = 12

_UNARY = """
    abs neg exp exp2 expm1 sin cos tan tanh sinh cosh erf erfc sigmoid silu gelu relu relu6 mish selu elu celu softplus
    hardsigmoid hardswish hardtanh leaky_relu hardshrink softshrink log_sigmoid square floor ceil round trunc frac sign sgn
    reciprocal rsqrt sqrt log log2 log10 log1p asinh acosh atan asin acos atanh deg2rad rad2deg sinc lgamma erfinv logit
    special_entr special_ndtri positive
    nan_to_num
"""
UNARY = tuple(_UNARY.split())
TESTS = ("isnan", "isfinite", "isinf", "signbit", "logical_not", "isposinf", "isneginf")
NUMBERED = ("add", "sub", "mul", "div", "rsub", "pow", "clamp_min", "clamp_max", "fmod", "remainder", "threshold", "clamp", "maximum", "floor_divide")  # fmt: skip
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "copysign", "logaddexp",
          "logaddexp2", "pow", "xlogy", "special_xlog1py", "ldexp", "heaviside", "rsub", "sigmoid_backward", "tanh_backward",
          "silu_backward", "gelu_backward", "hardsigmoid_backward", "hardswish_backward", "mish_backward", "_prelu_kernel")  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_OF_ITSELF = ("add", "mul", "hypot", "atan2")
"""Operators of `BINARY` that do not become a constant, a copy or a single branch if both operands are the same."""
TERNARY = ("lerp", "addcmul", "addcdiv", "where", "masked_fill")
INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "add", "sub", "mul", "maximum", "minimum")
INTEGERS_NUMBERED = (
    "bitwise_left_shift", "bitwise_right_shift", "remainder", "floor_divide", "add", "mul", "clamp_min",
    "fmod",
)  # fmt: skip
_OFTEN = {"unary": 8, "number": 4, "binary": 5, "ternary": 2, "test": 1, "cast": 1}
LOGIC = ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of the graph under construction, and the interval of its elements."""

    handle: Handle
    low: float
    high: float
    exact: bool = False
    """Whether it is an argument, or elements of one, and so free of rounding errors."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.handle.meta.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.handle.meta.dtype

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point


@dataclasses.dataclass(frozen=True)
class Within:
    """Limits for a small corpus; empty: no limit."""

    operators: tuple[str, ...] = ()
    """Allowed operators, by ATen name."""
    ranks: tuple[int, ...] = ()
    """Allowed dimensions of arguments."""
    reduced: tuple[int, ...] = ()
    """Dimensions that reductions may drop, one each."""


ANYTHING = Within()


class Drawing:
    """One random graph under construction."""

    def __init__(self, rng: random.Random, dtype: str, within: Within) -> None:
        self.rng, self.dtype, self.extents, self.within = rng, dtype, Extents(rng), within
        self.builder = GraphBuilder("drawn")
        self.draws: dict[str, Draw] = {}
        self.kept: set[tuple[str, int]] = set()
        self._names = iter(f"{letter}{number or ''}" for number in range(9) for letter in "xyzuvabcd")

    # -- arguments ---------------------------------------------------------------------------------------------

    def among(self, names: Sequence[str]) -> list[str]:
        """Those of the names that are allowed."""
        wanted = self.within.operators
        return [one for one in names if not wanted or one in wanted]

    def shape(self, rank: int = 0) -> tuple[int, ...]:
        rank = rank or self.rng.choices((1, 2, 3, 4), (1, 8, 6, 5))[0]
        if self.within.ranks and rank not in self.within.ranks:
            rank = self.rng.choice(self.within.ranks)
        letters = {1: "N", 2: "RW", 3: "BSD", 4: self.rng.choice(("BCIJ", "BCIJ", "BHSE"))}[rank]
        for letter in reversed(letters):
            self.extents[letter]
        return tuple(self.extents[letter] for letter in letters)

    def argument(self, shape: Sequence[int], dtype: str = "", role: Any = "input", kind: str = "") -> Value:
        dtype = dtype or self.dtype
        name = next(self._names)
        handle = self.builder.input(name, dtype, tuple(shape), role)
        if kind:
            self.draws[name] = DRAWS[kind]
        if dtype == "bool":
            return Value(handle, 0, 1, exact=True)
        if not handle.meta.dtype.is_floating_point:
            self.draws[name] = Draw("torch.randint(-9, 10, {listed}{dtype})")
            return Value(handle, -9, 9, exact=True)
        low, high = {"pos": (0.1, 1.1), "unit": (0.01, 0.99)}.get(
            kind, (-1.0, 1.0) if role == "weight" else (-5.0, 5.0)
        )
        return Value(handle, low, high, exact=True)

    def floats(self, shape: Sequence[int]) -> Value:
        return self.argument(shape, kind=self.rng.choices(("", "pos", "unit"), (6, 1, 1))[0])

    def other(self, like: Value) -> Value:
        """An argument that broadcasts to a value: of its shape, a row, a column, or one per channel."""
        shape, rank = like.shape, len(like.shape)
        how = self.rng.choices(("same", "row", "column", "some"), (5, 3, 1, 1))[0]
        if how == "row" and rank > 1:
            shape = shape[-1:] if rank != 4 else (shape[1], 1, 1)
        elif how == "column" and rank > 1:
            shape = (*shape[:-1], 1)
        elif how == "some":
            shape = tuple(1 if self.rng.random() < 0.4 else size for size in shape)
        return self.floats(shape)

    def op(
        self, name: str, *args: Any, low: float = -5.0, high: float = 5.0, exact: bool = False, **kwargs: Any
    ) -> Value:
        """Add an operator whose interval is known."""
        given = [one.handle if isinstance(one, Value) else one for one in args]
        made = self.builder.call(name, *given, **kwargs)
        first = made[0] if isinstance(made, tuple) else made
        return Value(first, low, high, exact)

    # -- elementwise -------------------------------------------------------------------------------------------

    def tried(self, name: str, *args: Any, **kwargs: Any) -> Value | None:
        """Add an elementwise operator if it is well-behaved on its operands' intervals; else None."""
        if not self.among([name]):
            return None
        values = [one for one in args if isinstance(one, Value)]
        span = interval(name, args, kwargs)
        if span is None:
            return None
        low, high, steep = span
        if steep and not all(one.exact for one in values):
            return None
        if max(abs(low), abs(high)) > LARGE:
            return None
        try:
            return self.op(name, *args, low=low, high=high, **kwargs)
        except (RuntimeError, TypeError):
            return None

    def step(self, x: Value) -> Value:
        """Add one more elementwise operator. Raises NotDrawn if none of many attempts fits."""
        for _ in range(_ATTEMPTS):
            made = self._step(x)
            if made is not None and made.shape == x.shape:
                return made
        raise NotDrawn("no operator fits")

    def _step(self, x: Value) -> Value | None:
        rng = self.rng
        if x.dtype == torch.bool:
            if rng.random() < 0.4:
                return self.tried("where", x, self.other_of(x), self.other_of(x))
            if rng.random() < 0.5:
                return self.tried(rng.choice(LOGIC), x, self.argument(x.shape, "bool"))
            return self.op("_to_copy", x, low=0, high=1, exact=x.exact, dtype=getattr(torch, self.dtype))
        if not x.is_float:
            return self._integer_step(x)
        kinds = {"unary": UNARY, "number": NUMBERED, "binary": BINARY, "ternary": TERNARY,
                 "test": (*TESTS, *COMPARISONS), "cast": ("_to_copy",)}  # fmt: skip
        weights = [often * bool(self.among(kinds[kind])) for kind, often in _OFTEN.items()]
        if not any(weights):
            return None
        how = rng.choices(list(_OFTEN), weights)[0]
        if how == "unary":
            return self.tried(rng.choice(self.among(UNARY)), x)
        if how == "number":
            return self._number(x)
        if how == "binary":
            name = rng.choice(self.among(BINARY))
            other = x if name in _OF_ITSELF and rng.random() < 0.5 else self.other(x)
            if name.endswith("_backward") and other.shape != x.shape:  # these do not broadcast
                other = self.floats(x.shape)
            pair = (x, other) if rng.random() < 0.7 else (other, x)
            return self.tried(name, *pair)
        if how == "ternary":
            return self._ternary(x)
        if how == "cast":
            wanted = rng.choice(
                (torch.float32, getattr(torch, self.dtype), torch.int32 if x.exact else torch.float32)
            )
            if wanted == torch.int32:  # the result is undefined for values outside int32
                x = self.op("clamp", x, -99.0, 99.0, low=x.low, high=x.high, exact=True)
            return self.op(
                "_to_copy", x, low=x.low, high=x.high, exact=x.exact and wanted == torch.float32, dtype=wanted
            )
        if not x.exact:
            return None
        if rng.random() < 0.5:
            return self.op(rng.choice(TESTS), x, low=0, high=1, exact=True)
        return self.op(rng.choice(COMPARISONS), x, round(rng.uniform(-1, 1), 2), low=0, high=1, exact=True)

    def other_of(self, x: Value) -> Value:
        """Floats of the shape of a mask."""
        return self.argument(x.shape)

    def _number(self, x: Value) -> Value | None:
        name, number = self.rng.choice(self.among(NUMBERED)), round(self.rng.uniform(-2.5, 2.5), 2)
        if name in ("div", "fmod", "remainder", "floor_divide", "pow"):
            number = round(abs(number) + 0.25, 2)
        if name == "threshold":
            return self.tried(name, x, number, number if self.rng.random() < 0.5 else 0.0)
        if name == "clamp":
            return self.tried(name, x, round(number - 1, 2), round(number + 1, 2))
        if name == "maximum":
            return self.tried("hardtanh", x, round(number - 1, 2), round(number + 1, 2))
        return self.tried(name, x, number)

    def _ternary(self, x: Value) -> Value | None:
        name = self.rng.choice(self.among(TERNARY))
        if name == "lerp":
            return self.tried(name, x, self.floats(x.shape), round(self.rng.random(), 2))
        if name == "where":
            return self.tried(name, self.argument(x.shape, "bool"), x, self.other(x))
        if name == "masked_fill":
            return self.tried(name, x, self.argument(x.shape, "bool"), round(self.rng.uniform(-3, 3), 1))
        third = self.other(x) if name == "addcmul" else self.argument(x.shape, kind="pos")
        return self.tried(name, x, self.other(x), third, value=round(self.rng.uniform(-1, 1), 2))

    def _integer_step(self, x: Value) -> Value | None:
        rng = self.rng
        how = rng.random()
        if how < 0.35:
            name = rng.choice(INTEGERS_NUMBERED)
            number = rng.randint(1, 3) if "shift" in name else rng.randint(2, 9)
            return self.tried(name, x, number)
        if how < 0.6:
            return self.tried(
                rng.choice(INTEGERS), x, self.argument(x.shape, str(x.dtype).removeprefix("torch."))
            )
        if how < 0.75:
            return self.op(rng.choice(COMPARISONS), x, rng.randint(-3, 3), low=0, high=1, exact=True)
        return self.op("_to_copy", x, low=x.low, high=x.high, exact=True, dtype=getattr(torch, self.dtype))

    def chain(self, x: Value, most: int, least: int = 0) -> Value:
        """Add several elementwise operators."""
        for _ in range(self.rng.randint(least, most)):
            x = self.step(x)
        return x

    def float_of(self, x: Value) -> Value:
        if x.is_float:
            return x
        return self.op("_to_copy", x, low=x.low, high=x.high, exact=x.exact, dtype=getattr(torch, self.dtype))

    def finished(self, x: Value, *others: Value) -> list[Value]:
        """The results: the last value, sometimes cast to the main dtype, and possibly others."""
        wanted = getattr(torch, self.dtype)
        if x.dtype == torch.bool:  # otherwise nonzero garbage would pass as an all-true mask
            x = self.op("_to_copy", x, low=0, high=1, dtype=wanted)
        if x.is_float and x.dtype != wanted and self.rng.random() < 0.7:
            x = self.op("_to_copy", x, low=x.low, high=x.high, dtype=wanted)
        return [x, *others]

    def places(self, shape: tuple[int, ...]) -> Value:
        """Integer indices, drawn within the bounds that `draws.index_bounds` finds."""
        name = next(self._names)
        return Value(self.builder.input(name, "int64", shape), 0, 3, exact=True)


def interval(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[float, float, bool] | None:
    """(least, largest, steep) of an elementwise operator on a grid over its operands' intervals; None if not finite."""
    values = [one for one in args if isinstance(one, Value)]
    points = {1: _GRID, 2: 17, 3: 9}[len(values)]
    grids = iter(torch.meshgrid(*(_axis(one, points) for one in values), indexing="ij"))
    function: Callable[..., Any] = getattr(torch.ops.aten, name)
    try:
        made = function(*(next(grids) if isinstance(one, Value) else one for one in args), **kwargs).double()
    except (RuntimeError, TypeError):
        return None
    if not bool(made.isfinite().all()) or (len(values) == 1 and torch.equal(made, _axis(values[0], points))):
        return None  # or it is the identity, such as relu of non-negative values
    steep = False
    for axis, one in enumerate(values):
        if one.is_float and made.shape[axis] > 1:
            width = max((one.high - one.low) / (points - 1), 1e-9)
            slope = made.diff(dim=axis).abs().max().item() / width
            steep = steep or slope > STEEP or _jumps(name)
    return float(made.min()), float(made.max()), steep


def _jumps(name: str) -> bool:
    """Whether an operator has steps that a coarse grid may take for slopes."""
    return name in ("floor", "ceil", "round", "trunc", "frac", "sign", "sgn", "fmod", "remainder", "floor_divide", "heaviside",
                    "copysign", "hardshrink", "threshold", *COMPARISONS)  # fmt: skip


def _axis(value: Value, points: int) -> torch.Tensor:
    if value.dtype == torch.bool:
        return torch.tensor([False, True])
    grid = torch.linspace(value.low, value.high, points, dtype=torch.float64)
    return grid if value.is_float else grid.round().to(value.dtype)
