"""Random graphs over some two hundred ATen operators, each with a nest: maps, rows, scans, products, windows, moves.

A graph grows from one central operator (or none): what is read is prepared by a few maps and moves, what it makes is
worked on by more, and one to three values are returned. Values carry an interval in which their elements lie. An elementwise
operator is taken only where, tried on a grid over those intervals in float64, it is finite, not large, and not steep: so
steps (floor, comparisons) act on arguments only, and no reference is all NaN or noise. Sizes come from `extents.py`.

Does not guarantee that a graph means anything, nor that the library has a nest for it.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch

from kernelwright.graph.draws import Draw
from kernelwright.graph.types import Graph
from kernelwright.synth.building import GraphBuilder, Handle
from kernelwright.synth.extents import Extents, NotDrawn
from kernelwright.synth.spelling import DRAWS

LARGE = 500.0
STEEP = 40.0
"""Largest slope of an operator on a value that was computed."""
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
TERNARY = ("lerp", "addcmul", "addcdiv", "where", "masked_fill")
INTEGERS = ("bitwise_and", "bitwise_or", "bitwise_xor", "add", "sub", "mul", "maximum", "minimum")
INTEGERS_NUMBERED = (
    "bitwise_left_shift",
    "bitwise_right_shift",
    "remainder",
    "floor_divide",
    "add",
    "mul",
    "clamp_min",
    "fmod",
)
LOGIC = ("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor")
REDUCTIONS = ("sum", "mean", "amax", "amin", "var", "std", "logsumexp", "prod", "nansum", "linalg_vector_norm", "norm",
              "argmax", "argmin", "max", "min", "any", "all", "count_nonzero", "aminmax", "var_mean", "std_mean")  # fmt: skip
NORMS = (
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "group_norm",
    "instance_norm",
    "unit",
    "centred",
    "batch_norm",
)
LOSSES = (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy_with_logits",
    "soft_margin_loss",
)
MOVES = ("permute", "flip", "roll", "cat", "stack", "chunk", "slice", "pad", "repeat", "repeat_interleave",
         "unsqueeze", "flatten", "tril", "triu", "select_scatter", "unbind", "select", "reflect", "replicate", "pixel",
         "upsample", "channels", "glu", "expand")  # fmt: skip
Form = Literal[
    "map", "row", "norm", "loss", "product", "convolution", "attention", "scan", "window", "lookup", "moves"
]
FORMS: dict[Form, int] = {"map": 20, "row": 17, "norm": 14, "loss": 5, "product": 14, "convolution": 6, "attention": 3, "scan": 5,
                          "window": 5, "lookup": 5, "moves": 8}  # fmt: skip
"""How often each is drawn."""


@dataclasses.dataclass(frozen=True)
class Value:
    """A value of the graph in the making, and between what its elements lie."""

    handle: Handle
    low: float
    high: float
    exact: bool = False
    """An argument, or elements of one: no rounding lies behind it."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.handle.meta.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.handle.meta.dtype

    @property
    def is_float(self) -> bool:
        return self.dtype.is_floating_point


@dataclasses.dataclass
class Drawn:
    """A graph of plain integers, how its arguments are drawn, and dimensions that must stay."""

    graph: Graph
    draws: dict[str, Draw]
    kept: set[tuple[str, int]]
    form: str


def random_graph(rng: random.Random, dtype: str, form: Form | None = None) -> Drawn:
    """A graph of that main dtype. Raises NotDrawn where what was drawn came to nothing."""
    form = form or rng.choices(list(FORMS), list(FORMS.values()))[0]
    drawer = _Drawer(rng, dtype)
    try:
        results = getattr(drawer, f"_{form}")()
        graph = drawer.builder.graph(*dict.fromkeys(one.handle for one in results))
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise NotDrawn(f"torch refuses a {form}: {type(error).__name__}") from None
    if not graph.nodes or any(math.prod(one.shape) > 2**27 for one in results):
        raise NotDrawn("nothing, or too much")
    return Drawn(graph, drawer.draws, drawer.kept, form)


class _Drawer:
    """One graph being drawn."""

    def __init__(self, rng: random.Random, dtype: str) -> None:
        self.rng, self.dtype, self.extents = rng, dtype, Extents(rng)
        self.builder = GraphBuilder("drawn")
        self.draws: dict[str, Draw] = {}
        self.kept: set[tuple[str, int]] = set()
        self._names = iter(f"{letter}{number or ''}" for number in range(9) for letter in "xyzuvabcd")

    # -- arguments ---------------------------------------------------------------------------------------------

    def shape(self, rank: int = 0) -> tuple[int, ...]:
        rank = rank or self.rng.choices((1, 2, 3, 4), (1, 8, 6, 5))[0]
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
        """An argument that broadcasts to a value: of its shape, a row, a column, a channel each."""
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
        """An operator whose interval is known."""
        given = [_handle(one) for one in args]
        made = self.builder.call(name, *given, **kwargs)
        first = made[0] if isinstance(made, tuple) else made
        return Value(first, low, high, exact)

    # -- elementwise -------------------------------------------------------------------------------------------

    def tried(self, name: str, *args: Any, **kwargs: Any) -> Value | None:
        """An elementwise operator, where it behaves on the intervals of what it reads."""
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
        """One more elementwise operator. Raises NotDrawn where none of many fits."""
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
        how = rng.choices(("unary", "number", "binary", "ternary", "test", "cast"), (8, 4, 5, 2, 1, 1))[0]
        if how == "unary":
            return self.tried(rng.choice(UNARY), x)
        if how == "number":
            return self._numbered(x)
        if how == "binary":
            other = x if rng.random() < 0.15 else self.other(x)
            pair = (x, other) if rng.random() < 0.7 else (other, x)
            return self.tried(rng.choice(BINARY), *pair)
        if how == "ternary":
            return self._ternary(x)
        if how == "cast":
            wanted = rng.choice(
                (torch.float32, getattr(torch, self.dtype), torch.int32 if x.exact else torch.float32)
            )
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

    def _numbered(self, x: Value) -> Value | None:
        name, number = self.rng.choice(NUMBERED), round(self.rng.uniform(-2.5, 2.5), 2)
        if name in ("div", "fmod", "remainder", "floor_divide", "pow"):
            number = abs(number) + 0.25
        if name == "threshold":
            return self.tried(name, x, number, number if self.rng.random() < 0.5 else 0.0)
        if name == "clamp":
            return self.tried(name, x, number - 1, number + 1)
        if name == "maximum":
            return self.tried("hardtanh", x, number - 1, number + 1)
        return self.tried(name, x, number)

    def _ternary(self, x: Value) -> Value | None:
        name = self.rng.choice(TERNARY)
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
        """Several elementwise operators."""
        for _ in range(self.rng.randint(least, most)):
            x = self.step(x)
        return x

    def float_of(self, x: Value) -> Value:
        if x.is_float:
            return x
        return self.op("_to_copy", x, low=x.low, high=x.high, exact=x.exact, dtype=getattr(torch, self.dtype))

    def finished(self, x: Value, *others: Value) -> list[Value]:
        """What is returned: the last value, at times in the main dtype again, at times with another."""
        wanted = getattr(torch, self.dtype)
        if x.dtype == torch.bool:  # a mask alone is all true wherever memory is not 0
            x = self.op("_to_copy", x, low=0, high=1, dtype=wanted)
        if x.is_float and x.dtype != wanted and self.rng.random() < 0.7:
            x = self.op("_to_copy", x, low=x.low, high=x.high, dtype=wanted)
        return [x, *others]

    # -- forms -------------------------------------------------------------------------------------------------

    def start(self, rank: int = 0) -> Value:
        kind = self.rng.choices(("float", "int32", "int64", "bool"), (16, 1, 1, 1))[0]
        shape = self.shape(rank)
        return self.floats(shape) if kind == "float" else self.argument(shape, kind)

    def _map(self) -> list[Value]:
        x = self.chain(self.start(), 6, 1)
        if self.rng.random() < 0.15:
            x = self.float_of(x)
            return [x, self.float_of(self.step(x))]
        return self.finished(x)

    def _moves(self) -> list[Value]:
        x = self.floats(self.shape(self.rng.choice((2, 3, 4, 4))))
        x = self.chain(x, 1)
        for _ in range(self.rng.randint(1, 2)):
            x = self.move(x)
        return self.finished(self.chain(x, 2))

    def _row(self) -> list[Value]:
        x = self.chain(self.start(), 3)
        made = self.reduction(x)
        if len(made) == 1:
            made = [self.chain(made[0], 2)]
        return self.finished(*made)

    def _norm(self) -> list[Value]:
        x = self.chain(self.floats(self.shape(self.rng.choice((2, 3, 3, 4)))), 2)
        read = x
        x = self.chain(self.norm(self.float_of(x)), 3)
        return self.finished(x, *([read] if not read.exact and self.rng.random() < 0.15 else []))

    def _loss(self) -> list[Value]:
        x = self.chain(self.floats(self.shape(self.rng.choice((2, 2, 3, 4)))), 1)
        name, how = self.rng.choice(LOSSES), self.rng.choice((0, 1, 1, 2))
        if name == "binary_cross_entropy_with_logits":
            return [self.op(name, x, self.argument(x.shape, kind="unit"), None, None, how)]
        return [self.op(name, self.float_of(x), self.floats(x.shape), how)]

    def _product(self) -> list[Value]:
        rng = self.rng
        how = rng.choices(("linear", "mm", "bmm", "addmm", "matmul", "mv", "tied"), (8, 3, 3, 1, 2, 1, 1))[0]
        m, n, k = (self.extents[letter] for letter in "MNK")
        while m * k + n * k + m * n > 2**26:
            m, n, k = (max(16, one // 2) for one in (m, n, k))
        if how == "linear":
            lead = (m,) if rng.random() < 0.5 else (max(1, m // 64), min(m, 64))
            x, w = self.argument((*lead, k)), self.argument((n, k), role="weight")
            bias = self.argument((n,), role="weight") if rng.random() < 0.6 else None
            y = self.op("linear", x, w, bias)
        elif how in ("mm", "addmm", "mv", "tied"):
            x, w = self.argument((m, k)), self.argument((k, n) if how != "mv" else (k,), role="weight")
            if how == "tied":
                x, w = self.argument((k, m)), w
                x = self.op("permute", x, [1, 0], low=x.low, high=x.high)
            y = (
                self.op("addmm", self.other(self.op_shape((m, n))), x, w)
                if how == "addmm"
                else self.op(how if how != "tied" else "mm", x, w)
            )
        else:
            b = rng.choice((2, 4, 8, 16))
            x, w = self.argument((b, m // b + 1, k)), self.argument((b, k, n // b + 16), role="weight")
            y = self.op("bmm" if how == "bmm" else "matmul", x, w)
        return self.finished(self.chain(y, 4))

    def op_shape(self, shape: tuple[int, ...]) -> Value:
        """Nothing but a shape, for `other`."""
        return Value(Handle("", torch.empty(shape, device="meta")), 0, 0)

    def _convolution(self) -> list[Value]:
        rng = self.rng
        rank = rng.choices((1, 2, 3), (2, 6, 1))[0]
        b, c, o = self.extents["B"], self.extents["C"], self.extents["O"]
        sides = {
            1: (self.extents["S"],),
            2: (self.extents["I"], self.extents["J"]),
            3: (8, self.extents["I"] // 4 + 4, 16),
        }[rank]
        while b * max(c, o) * math.prod(sides) > 2**25 and b > 1:
            b = max(1, b // 2)
        kernel = rng.choice((1, 2, 3, 3, 5) if rank < 3 else (1, 3))
        stride, pad = rng.choice((1, 1, 2)), rng.choice((0, kernel // 2))
        groups = rng.choices((1, 2, c), (8, 1, 2))[0]
        o = c if groups == c else o
        x = self.argument((b, c, *sides))
        w = self.argument((o, c // groups, *(kernel,) * rank), role="weight")
        self.kept |= {(w.handle.name, dim) for dim in range(2, 2 + rank)}
        bias = self.argument((o,), role="weight") if rng.random() < 0.6 else None
        y = self.op(
            "convolution", x, w, bias, [stride] * rank, [pad] * rank, [1] * rank, False, [0] * rank, groups
        )
        return self.finished(self.chain(y, 3))

    def _attention(self) -> list[Value]:
        b, h, s, e = (self.extents[letter] for letter in "BHSE")
        while b * h * s * e > 2**24:
            b, s = max(1, b // 2), max(16, s // 2)
        keys = s if self.rng.random() < 0.7 else max(16, s // 2)
        q, k, v = self.argument((b, h, s, e)), self.argument((b, h, keys, e)), self.argument((b, h, keys, e))
        mask = self.argument((s, keys)) if self.rng.random() < 0.25 else None
        causal = mask is None and keys == s and self.rng.random() < 0.5
        y = self.op("scaled_dot_product_attention", q, k, v, mask, 0.0, causal)
        return self.finished(self.chain(y, 2))

    def _scan(self) -> list[Value]:
        x = self.floats(self.shape(self.rng.choice((2, 2, 3))))
        x = self.float_of(self.chain(x, 2))
        name = "cumprod" if x.low >= 0 and x.high <= 1.2 else "cumsum"
        y = self.op(name, x, self.rng.randrange(len(x.shape)), low=-60, high=60)
        return self.finished(self.chain(y, 2))

    def _window(self) -> list[Value]:
        rng = self.rng
        rank = rng.choices((1, 2, 3), (1, 6, 1))[0]
        shape = {1: "BCS", 2: "BCIJ", 3: "PCIJP"}[rank]
        x = self.chain(self.floats(tuple(self.extents[one] for one in shape)), 1)
        size, how = rng.choice((2, 2, 3)), rng.choice(("max", "avg"))
        step, pad = rng.choice((1, 2, size)), rng.choice((0, size // 2))
        y = self.op(
            f"{how}_pool{rank}d",
            self.float_of(x),
            [size] * rank,
            [step] * rank,
            [pad] * rank,
            low=x.low,
            high=x.high,
        )
        return self.finished(self.chain(y, 2))

    def _lookup(self) -> list[Value]:
        rng = self.rng
        how = rng.choice(("embedding", "gather", "index_select", "index", "take"))
        if how == "embedding":
            w, i = (
                self.argument((self.extents["V"], self.extents["D"]), role="weight"),
                self.places((self.extents["B"], self.extents["S"])),
            )
            return self.finished(self.chain(self.op(how, w, i, low=-1, high=1, exact=True), 3))
        x = self.chain(self.floats(self.shape(rng.choice((2, 3)))), 1)
        dim = rng.randrange(len(x.shape))
        if how == "gather":
            shape = (*x.shape[:dim], self.extents["P"], *x.shape[dim + 1 :])
            y = self.op(how, x, dim, self.places(shape), low=x.low, high=x.high, exact=x.exact)
        elif how == "index":
            y = self.builder.call(how, x.handle, [*[None] * dim, self.places((self.extents["F"],)).handle])
            y = Value(y, x.low, x.high, x.exact)
        elif how == "take":
            y = self.op(
                how, x, self.argument((self.extents["F"],), "int64"), low=x.low, high=x.high, exact=x.exact
            )
        else:
            y = self.op(how, x, dim, self.places((self.extents["F"],)), low=x.low, high=x.high, exact=x.exact)
        return self.finished(self.chain(y, 3))

    def places(self, shape: tuple[int, ...]) -> Value:
        """Integers that name places: drawn as `draws.index_bounds` finds."""
        name = next(self._names)
        return Value(self.builder.input(name, "int64", shape), 0, 3, exact=True)

    # -- rows --------------------------------------------------------------------------------------------------

    def dims(self, rank: int) -> list[int]:
        """Dimensions to reduce: mostly the last, at times others, several or all."""
        rng = self.rng
        how = rng.choices(("last", "one", "some", "all"), (6, 3, 2, 1))[0]
        if how == "last":
            return [-1]
        if how == "one":
            return [rng.randrange(rank)]
        return list(range(rank)) if how == "all" else sorted(rng.sample(range(rank), rng.randint(1, rank)))

    def reduction(self, x: Value) -> list[Value]:
        rng, name = self.rng, self.rng.choice(REDUCTIONS)
        dims, keep = self.dims(len(x.shape)), rng.random() < 0.3
        count = math.prod(x.shape[dim] for dim in dims)
        if name in ("any", "all", "count_nonzero") or x.dtype == torch.bool:
            name = name if name in ("any", "all", "count_nonzero") else rng.choice(("any", "all"))
            x = x if x.exact else self.float_of(x)
            if not x.exact and name == "count_nonzero":
                name = "sum"
            return [
                self.op(name, x, dims[:1] if name == "count_nonzero" else dims[0], exact=True, low=0, high=1)
            ]
        if name in ("argmax", "argmin", "max", "min"):
            if not x.exact and name.startswith("arg"):
                name = name.removeprefix("arg")
            if name in ("max", "min"):
                made = self.builder.call(name, x.handle, dims[0], keep)
                return [Value(made[0], x.low, x.high), *([Value(made[1], 0, 9)] if x.exact else [])]
            return [self.op(name, x, dims[0], keep, low=0, high=9)]
        x = self.float_of(x)
        if name == "aminmax":
            made = self.builder.call(name, x.handle, dim=dims[0], keepdim=keep)
            return [Value(one, x.low, x.high) for one in made]
        if name in ("var_mean", "std_mean"):
            made = self.builder.call(name, x.handle, dims, correction=rng.choice((0, 1)), keepdim=keep)
            return [Value(one, 0, 25) for one in made]
        if name in ("var", "std"):
            return [self.op(name, x, dims, correction=rng.choice((0, 1)), keepdim=keep, low=0.1, high=25)]
        if name in ("norm", "linalg_vector_norm"):
            return [self.op(name, x, rng.choice((1, 2, 2)), dims, keep, low=0, high=100)]
        if name == "prod":
            if not (x.low >= 0.3 and x.high <= 2) or count > 64:
                name = "mean"
            else:
                return [self.op(name, x, dims[0], keep)]
        if (
            name in ("sum", "nansum")
            and self.dtype == "float16"
            and count * max(abs(x.low), abs(x.high)) > 2e4
        ):
            name = "mean"
        return [
            self.op(
                name, x, dims, keep, low=-50 if name == "sum" else x.low, high=50 if name == "sum" else x.high
            )
        ]

    def norm(self, x: Value) -> Value:
        rng, name, rank = self.rng, self.rng.choice(NORMS), len(x.shape)
        last = x.shape[-1]
        if name in ("group_norm", "instance_norm", "batch_norm"):
            if rank != 4:
                name = "rms_norm"
            else:
                return self._image_norm(name, x)
        if name in ("softmax", "log_softmax"):
            dim = rng.choice((-1, -1, rng.randrange(rank)))
            return self.op(
                name, x, dim, low=0 if name == "softmax" else -30, high=1 if name == "softmax" else 0
            )
        weights = (
            [self.argument((last,), role="weight") for _ in range(2)] if rng.random() < 0.7 else [None, None]
        )
        if name == "layer_norm":
            return self.op(name, x, [last], *weights, rng.choice((1e-5, 1e-6)))
        if name == "rms_norm":
            return self.op(name, x, [last], weights[0], rng.choice((1e-5, 1e-6)))
        dims = [self.dims(rank)[0]]
        if name == "unit":
            length = self.op("add", self.op("linalg_vector_norm", x, 2, dims, True), 1e-3)
            return self.op("div", x, length, low=-1, high=1)
        return self.op("sub", x, self.op(rng.choice(("mean", "amax")), x, dims, True), low=-10, high=10)

    def _image_norm(self, name: str, x: Value) -> Value:
        rng, c = self.rng, x.shape[1]
        w, b = (self.argument((c,), role="weight") for _ in range(2))
        if name == "group_norm":
            groups = [one for one in (1, 2, 4, 8, 16) if c % one == 0]
            return self.op(name, x, rng.choice(groups), w, b, 1e-5)
        if name == "instance_norm":
            return self.op(name, x, w, b, None, None, True, 0.1, 1e-5, False)
        m, v = self.argument((c,)), self.argument((c,), kind="pos")
        return self.op(name, x, w, b, m, v, False, 0.1, 1e-5, False)

    # -- moves -------------------------------------------------------------------------------------------------

    def move(self, x: Value) -> Value:
        """One more move; the value itself where it does not apply."""
        name = self.rng.choice(MOVES)
        span = {"low": x.low, "high": x.high, "exact": x.exact}
        made = self._turn(name, x, span) or self._parts(name, x, span) or self._image(name, x, span)
        if made is None:
            raise NotDrawn("a move that does not apply")
        return made

    def _turn(self, name: str, x: Value, span: dict[str, Any]) -> Value | None:
        rng, rank = self.rng, len(x.shape)
        dim = rng.randrange(rank)
        if name == "permute" and rank > 1:
            order = rng.sample(range(rank), rank)
            return self.op("clone", self.op("permute", x, order, **span), **span)
        if name == "flip":
            return self.op(name, x, [dim], **span)
        if name == "roll":
            return self.op(name, x, [rng.choice((1, 2, -1, 5))], [dim], **span)
        if name == "unsqueeze":
            return self.step(self.op(name, x, rng.randrange(rank + 1), **span))
        if name == "flatten" and rank > 2:
            return self.step(self.op("view", x, [math.prod(x.shape[:-1]), x.shape[-1]], **span))
        if name in ("tril", "triu") and rank > 1:
            return self.op(
                name, x, rng.choice((-1, 0, 1)), low=min(x.low, 0), high=max(x.high, 0), exact=x.exact
            )
        if name == "expand" and rank < 4:
            wide = self.op("unsqueeze", x, 0, **span)
            return self.step(self.op("expand", wide, [rng.randint(2, 4), *x.shape], **span))
        return None

    def _parts(self, name: str, x: Value, span: dict[str, Any]) -> Value | None:
        rng, rank = self.rng, len(x.shape)
        dim = rng.randrange(rank)
        if name in ("cat", "stack"):
            other = self.floats(x.shape)
            pair = [self.chain(x, 1).handle, other.handle]
            made = self.builder.call(name, pair, dim)
            return Value(made, min(x.low, -5), max(x.high, 5))
        if name in ("chunk", "glu") and x.shape[dim] % 2 == 0:
            if name == "glu":
                return self.op(name, x, dim)
            parts = 2 if x.shape[dim] % 4 or rng.random() < 0.6 else 4
            pieces = self.builder.call("chunk", x.handle, parts, dim)
            values = [Value(one, x.low, x.high, x.exact) for one in pieces]
            return self.tried(rng.choice(("mul", "add", "sub", "maximum")), self.step(values[0]), values[-1])
        if name == "slice" and x.shape[dim] > 8:
            start, cut = rng.choice(((1, 2**63 - 1), (0, -1), (2, 2**63 - 1), (1, -1)))
            return self.op(name, x, dim, start, cut, **span)
        if name == "select_scatter" and rank > 1:
            part = self.floats((*x.shape[:dim], *x.shape[dim + 1 :]))
            return self.op(name, x, part, dim, 0)
        if name == "select" and rank > 2:
            return self.step(self.op(name, x, dim, 0, **span))
        if name == "unbind" and rank < 4:
            wide = self.argument((*x.shape, 2))
            self.kept.add((wide.handle.name, rank))
            left, right = self.builder.call(name, wide.handle, -1)
            return self.tried("mul", Value(left, -5, 5, True), Value(right, -5, 5, True))
        if name == "repeat" and math.prod(x.shape) < 2**23:
            return self.op(name, x, [2 if at == dim else 1 for at in range(rank)], **span)
        if name == "repeat_interleave" and math.prod(x.shape) < 2**23:
            return self.op(name, x, rng.randint(2, 4), dim, **span)
        return None

    def _image(self, name: str, x: Value, span: dict[str, Any]) -> Value | None:
        rng = self.rng
        if name == "pad":
            pads = [rng.randint(0, 2) for _ in range(2 * min(len(x.shape), 2))]
            fill = round(rng.uniform(-1, 1), 1)
            return self.op("constant_pad_nd", x, pads, fill, low=min(x.low, -1), high=max(x.high, 1))
        if len(x.shape) != 4:
            return None
        b, _, height, width = x.shape
        if name in ("reflect", "replicate"):
            op = "reflection_pad2d" if name == "reflect" else "replication_pad2d"
            return self.op(op, x, [rng.randint(0, 1) for _ in range(3)] + [1], **span)
        if name == "upsample" and math.prod(x.shape) < 2**22:
            return self.op("upsample_nearest2d", x, [2 * height, 2 * width], **span)
        if name == "channels":
            y = self.argument((b, 32, height, width))
            self.kept.add((y.handle.name, 1))
            return self.op("channel_shuffle", y, rng.choice((2, 4, 8)), low=-5, high=5, exact=True)
        if name == "pixel":
            y = self.argument((b, 32, height, width))
            self.kept.add((y.handle.name, 1))
            return self.op("pixel_shuffle", y, rng.choice((2, 4)), low=-5, high=5, exact=True)
        return None


def _handle(one: Any) -> Any:
    return one.handle if isinstance(one, Value) else one


def interval(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[float, float, bool] | None:
    """(least, largest, steep) of an elementwise operator on a grid over its operands' intervals; None where not finite."""
    values = [one for one in args if isinstance(one, Value)]
    points = {1: _GRID, 2: 17, 3: 9}[len(values)]
    grids = iter(torch.meshgrid(*(_axis(one, points) for one in values), indexing="ij"))
    function: Callable[..., Any] = getattr(torch.ops.aten, name)
    try:
        made = function(*(next(grids) if isinstance(one, Value) else one for one in args), **kwargs).double()
    except (RuntimeError, TypeError):
        return None
    if not bool(made.isfinite().all()):
        return None
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
