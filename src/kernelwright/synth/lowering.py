"""Lowers ATen nodes to primitives, the operations that schedules know.

Raises `Unsupported` for operators without a rule. Does not fold constants or simplify algebraically: a graph is computed as
written.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

from kernelwright.graph.types import DtypeArg, Graph, Node, NumberType, Other, Ref, Size, TensorType
from kernelwright.synth.backward import convolution_backward, patches
from kernelwright.synth.call import Call, affine, mean_of, norm_of, reduce_loss, slice_of
from kernelwright.synth.moves import MOVES, before
from kernelwright.synth.pointwise import RULES
from kernelwright.synth.primitives import Builder, Prim, Unsupported, Val
from kernelwright.synth.sizes import Size as Form
from kernelwright.synth.sizes import Varying, parse
from kernelwright.synth.statistics import STATISTICS

ALIASES = {
    "clamp_min": "clamp_min", "arctan": "atan", "absolute": "abs", "negative": "neg", "subtract": "sub",
    "multiply": "mul", "divide": "div", "greater": "gt", "less": "lt", "not_equal": "ne", "sgn": "sign", "fix": "trunc",
    "relu_": "relu", "true_divide": "div", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor",
}  # fmt: skip
_INFINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class Lowered:
    """A graph's primitives, argument values and results."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.builder = Builder()
        self.values: dict[str, Val] = {}
        self.hints = {symbol.name: symbol.hint for symbol in graph.symbols}
        for argument in graph.arguments:
            if isinstance(argument.type, NumberType):
                if argument.name not in self.hints:
                    raise Unsupported("an argument that is a number and no size")
                continue
            self.values[argument.name] = Val(argument.name, argument.type.dtype, self.shape(argument.type))
            self.builder._names.add(argument.name)
        self.arguments = tuple(self.values.values())
        self.builder._names.update(
            value.name for node in graph.nodes for value in node.outputs if value is not None
        )
        for node in graph.nodes:
            self._node(node)
        self.results = tuple(self.values[name] for name in graph.results)
        self.stored: frozenset[str] = frozenset()

    def part(self, results: Collection[str], stored: Collection[str]) -> Lowered:
        """The primitives for some values, given others that are already `stored` and are read like arguments."""
        values = {prim.out.name: prim.out for prim in self.builder.prims} | {
            one.name: one for one in self.arguments
        }
        made = copy.copy(self)
        made.results, made.stored = tuple(values[name] for name in results), frozenset(stored)
        made.arguments = (*self.arguments, *(values[name] for name in stored))
        return made

    @property
    def prims(self) -> list[Prim]:
        """The primitives that a result needs, in order."""
        needed = {one.name for one in self.results}
        kept = []
        for prim in reversed(self.builder.prims):
            if prim.out.name in needed and prim.out.name not in self.stored:
                kept.append(prim)
                needed.update(one.name for one in prim.reads())
        return kept[::-1]

    def shape(self, of: TensorType) -> tuple[int, ...]:
        """The sizes of a type at capture."""
        return tuple(self.number(size) for size in of.shape)

    def number(self, size: int | str) -> int:
        """A size, with symbols replaced by their hints."""
        if isinstance(size, int):
            return size
        names = {"__builtins__": {}, **self.hints}
        return int(eval(size, names))  # a `Dim`: its validator admits only digits, symbols and operators

    def operand(self, one: Any) -> Any:
        """An operand in the form that rules use."""
        if isinstance(one, Ref):
            size = self.hints.get(one.ref)
            return self.values[one.ref] if size is None else Varying.of(size, Form.of(one.ref))
        if isinstance(one, Size):
            return self._size(one.size)
        if isinstance(one, DtypeArg):
            return one.dtype
        if isinstance(one, Other):
            return _INFINITE.get(one.other)
        return tuple(self.operand(item) for item in one) if isinstance(one, tuple) else one

    def _node(self, node: Node) -> None:
        space, _, rest = node.op.partition(".")
        base, _, _ = rest.partition(".")
        outputs = [value for value in node.outputs if value is not None]
        if space not in ("aten", "prims") or any(not isinstance(one.type, TensorType) for one in outputs):
            raise Unsupported(node.op)
        base = ALIASES.get(base, base)
        args = tuple(self.operand(one) for one in node.args)
        kwargs = {name: self.operand(one) for name, one in node.kwargs}
        if base not in _VARYING:
            fixed: tuple[Any, ...] = () if base in _SIZED else (*args, *kwargs.values())
            if base in _CONVOLUTIONS and self._one_filter_a_channel(node, base):
                fixed = args[_CONVOLUTIONS[base] + 3 :][:5]  # all but the number of groups
            if any(isinstance(one, Varying) for one in _flat(fixed)):
                raise Unsupported(f"{node.op} of a size that varies")
            args = tuple(map(_captured, args))
            kwargs = {name: _captured(one) for name, one in kwargs.items()}
        if base in _CONVOLUTIONS:
            self._fix_window(node, base)
        rule = _LOWERINGS.get(base)
        if rule is None and base not in RULES:
            raise Unsupported(node.op)
        call = Call(self.builder, base, args, kwargs, self._out(node, 0), self._sizes(node))
        made = rule(call) if rule is not None else call.pointwise(base)
        results = made if isinstance(made, tuple) else (made,)
        for place, value in enumerate(node.outputs):
            if value is not None:
                if place >= len(results) or results[place] is None:
                    raise Unsupported(f"result {place} of {node.op}")
                self.values[value.name] = self._named(results[place], value.name, self._out(node, place))

    def _one_filter_a_channel(self, node: Node, base: str) -> bool:
        """Whether a convolution has as many groups as channels and filters, so that kernels need not know the number."""
        x, weight = (self.operand(one) for one in node.args[_CONVOLUTIONS[base] :][:2])
        return bool(weight.shape[0] == x.shape[1] and weight.shape[1] == 1)

    def _fix_window(self, node: Node, base: str) -> None:
        """Raises Unsupported if a convolution's window may vary in size and the form that it is lowered to cannot."""
        ref = node.args[_CONVOLUTIONS[base] + 1]
        kind = self.graph.types()[ref.ref] if isinstance(ref, Ref) else None
        if not isinstance(kind, TensorType) or all(isinstance(one, int) for one in kind.shape[2:]):
            return
        if base == "convolution_backward" or kind.shape[0] == 1:
            raise Unsupported(f"{node.op} of a window whose size varies")

    def _out(self, node: Node, place: int) -> Val:
        value = node.outputs[place] if place < len(node.outputs) else None
        if value is None or not isinstance(value.type, TensorType):
            return Val("", "float32", ())
        return Val(value.name, value.type.dtype, self.shape(value.type))

    def _sizes(self, node: Node) -> tuple[int, ...]:
        """Sizes of the first result, which may be `Varying`."""
        kind = node.outputs[0].type if node.outputs[0] is not None else None
        return tuple(map(self._size, kind.shape)) if isinstance(kind, TensorType) else ()

    def _size(self, size: int | str) -> int:
        form = parse(size) if isinstance(size, str) else None
        return self.number(size) if form is None else Varying.of(self.number(size), form)

    def _named(self, made: Val, name: str, declared: Val) -> Val:
        """Rename the last primitive to the graph's own name and dtype if it made the value; else add an alias."""
        prims = self.builder.prims
        for place in range(len(prims) - 1, max(len(prims) - 4, -1), -1):
            if prims[place].out is made:
                last = prims[place]
                value = Val(name, declared.dtype, made.shape)
                prims[place] = Prim(last.op, last.args, value, last.attrs)
                for later in range(place + 1, len(prims)):
                    one = prims[later]
                    args = tuple(value if arg is made else arg for arg in one.args)
                    prims[later] = Prim(one.op, args, one.out, one.attrs)
                self.builder._names.add(name)
                return value
        return self.builder.add("alias", (made,), declared.dtype, made.shape, name)


_SIZED = frozenset(
    [
        "view", "_unsafe_view", "reshape", "expand", "broadcast_to", "full", "zeros", "ones", "arange",
        "unflatten", "layer_norm", "rms_norm", "upsample_nearest1d", "upsample_nearest2d",
        "upsample_nearest3d", "upsample_linear1d", "upsample_bilinear2d", "upsample_bicubic2d",
    ]
)  # fmt: skip
"""Operators whose size arguments are those of their results."""
_VARYING = frozenset(
    [
        "slice", "select", "split", "split_with_sizes", "full", "full_like", "arange", "roll", "masked_fill", "where", "clamp", "clamp_min",
        "clamp_max", "add", "sub", "rsub", "mul", "div", "remainder", "eq", "ne", "lt", "le", "gt", "ge",
        "scalar_tensor",
    ]
)  # fmt: skip
"""Operators that accept varying numbers."""
_DIRECT = 64
"""Most products of channels and taps that a direct convolution unrolls."""
_CONVOLUTIONS = {"convolution": 0, "convolution_backward": 1}
"""Operator -> position of the call's input; weights follow it."""


def _captured(operand: Any) -> Any:
    """An operand with numbers at capture in place of varying sizes."""
    if isinstance(operand, tuple):
        return tuple(map(_captured, operand))
    return int(operand) if isinstance(operand, Varying) else operand


def _flat(operands: tuple[Any, ...]) -> Iterator[Any]:
    for one in operands:
        if isinstance(one, tuple):
            yield from _flat(one)
        else:
            yield one


def _by(rule: str, *places: int) -> Callable[[Call], Val]:
    """A rule that applies a row of the elementwise table to the arguments at these positions."""
    return lambda call: call.b.map(rule, *map(call.arg, places), dtype=call.out.dtype)


def _scale(call: Call) -> Val:
    """`add(x, y, alpha)`, `sub(x, y, alpha)`."""
    left, right, alpha = call.arg(0), call.arg(1), call.kwargs.get("alpha", call.arg(2, default=1))
    if call.op == "rsub":
        left, right = right, left
        if alpha != 1:
            right = call.b.map("mul", right, alpha)
    elif alpha != 1:
        right = call.b.map("mul", right, alpha) if isinstance(right, Val) else right * alpha
    return call.b.map("sub" if call.op == "rsub" else call.op, left, right, dtype=call.out.dtype)


def _div(call: Call) -> Val:
    mode = call.kwargs.get("rounding_mode", call.arg(2))
    rule = {None: "div", "floor": "div_floor", "trunc": "div_trunc"}[mode]
    return call.b.map(rule, call.arg(0), call.arg(1), dtype=call.out.dtype)


def _gelu(call: Call) -> Val:
    rule = "gelu_tanh" if call.arg(1, "approximate", "none") == "tanh" else "gelu_erf"
    return call.b.map(rule, call.x, dtype=call.out.dtype)


def _clamp(call: Call) -> Val:
    x: Val = call.x
    low = call.arg(1, "min") if call.op != "clamp_max" else None
    high = (
        call.arg(2, "max") if call.op == "clamp" else call.arg(1, "max") if call.op == "clamp_max" else None
    )
    if low is not None:
        x = call.b.map("maximum", x, low, dtype=call.out.dtype)
    if high is not None:
        x = call.b.map("minimum", x, high, dtype=call.out.dtype)
    return x


def _lerp(call: Call) -> Val:
    """Starts from the nearer end, as PyTorch does: from the other, large operands overflow."""
    x, y, weight = call.arg(0), call.arg(1), call.arg(2)
    if isinstance(weight, Val) or abs(weight) < 0.5:
        return call.b.map("lerp", x, y, weight, dtype=call.out.dtype)
    return call.b.map("lerp_back", x, y, round(1 - weight, 15), dtype=call.out.dtype)


def _pow(call: Call) -> Val:
    x, by = call.arg(0), call.arg(1)
    integer = call.out.dtype.startswith(("int", "uint"))
    if isinstance(x, Val) and by in (2, 3, 0.5, -0.5, -1, 1):
        if by in (2, 3):
            square = call.b.map("mul", x, x, dtype=call.out.dtype)
            return square if by == 2 else call.b.map("mul", square, x, dtype=call.out.dtype)
        rule = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal", 1: "alias"}[by]
        return call.b.map(rule, x, dtype=call.out.dtype)
    if integer:
        raise Unsupported("pow of integers")
    return call.b.map("pow", x, by, dtype=call.out.dtype)


def _prelu(call: Call) -> Val:
    """One slope, or one per channel."""
    x, slope = call.x, call.arg(1)
    if len(slope.shape) == 1 and len(x.shape) > 1:
        slope = call.b.view(slope, (slope.shape[0], *(1,) * (len(x.shape) - 2)))
    return call.b.map("prelu", x, slope, dtype=call.out.dtype)


def _glu(call: Call) -> Val:
    x, dim = call.x, call.arg(1, "dim", -1) % len(call.x.shape)
    half = x.shape[dim] // 2
    left, right = (slice_of(call.b, x, dim, place * half, half, parts=2) for place in range(2))
    return call.b.map("mul", left, call.b.map("sigmoid", right), dtype=call.out.dtype)


def _view(call: Call) -> Val:
    return call.b.view(call.x, call.out.shape)


def _permute(call: Call) -> Val:
    rank = len(call.x.shape)
    if call.op in ("t", "numpy_T"):
        order = tuple(reversed(range(rank)))
    elif call.op == "transpose":
        order_list = list(range(rank))
        a, b = call.arg(1) % rank, call.arg(2) % rank
        order_list[a], order_list[b] = b, a
        order = tuple(order_list)
    else:
        order = call.arg(1, "dims")
    return call.b.permute(call.x, order)


def _expand(call: Call) -> Val:
    return call.b.add("expand", (call.x,), call.x.dtype, call.out.shape)


def _slice(call: Call) -> Val:
    x, dim = call.x, call.arg(1, "dim", 0) % len(call.x.shape)
    start, end, step = call.arg(2, "start") or 0, call.arg(3, "end"), call.arg(4, "step", 1)
    size, length = x.shape[dim], call.out.shape[dim]
    start = 0 if start <= -size else min(start, size)
    open_end = end is None or end >= size
    if start < 0 and (step != 1 or not open_end):
        raise Unsupported("a slice that starts at a distance from the end")
    if start < 0:
        length = -start
    elif not open_end and end >= 0 and step == 1:
        length = end - start
    cut = None if start < 0 or step != 1 or not (open_end or end < 0) else start + (0 if open_end else -end)
    return slice_of(call.b, x, dim, start, length, step, cut=cut)


def _select(call: Call) -> Val:
    x, dim = call.x, call.arg(1) % len(call.x.shape)
    return call.b.view(slice_of(call.b, x, dim, call.arg(2), 1), call.out.shape)


def _split(call: Call) -> tuple[Val, ...]:
    x, dim = call.x, call.arg(2, "dim", 0) % len(call.x.shape)
    total, by = x.shape[dim], call.arg(1)
    if call.op == "chunk":
        by = -(-total // by)
    sizes = list(by) if isinstance(by, tuple) else [min(by, total - at) for at in range(0, total, by)]
    starts = [sum(sizes[:place]) for place in range(len(sizes))]
    parts = len(sizes) if call.op == "chunk" and len(set(sizes)) == 1 else 0
    return tuple(slice_of(call.b, x, dim, at, n, parts=parts) for at, n in zip(starts, sizes, strict=True))


def _cat(call: Call) -> Val:
    parts, dim = call.arg(0), call.arg(1, "dim", 0)
    return call.b.add("cat", (parts,), call.out.dtype, call.out.shape, dim=dim % len(call.out.shape))


def _stack(call: Call) -> Val:
    parts, dim = call.arg(0), call.arg(1, "dim", 0) % len(call.out.shape)
    shape = (*call.out.shape[:dim], 1, *call.out.shape[dim + 1 :])
    views = tuple(call.b.view(part, shape) for part in parts)
    return call.b.add("cat", (views,), call.out.dtype, call.out.shape, dim=dim)


def _flip(call: Call) -> Val:
    return call.b.add("flip", (call.x,), call.x.dtype, call.x.shape, dims=call.dims(1, "dims"))


def _pad(call: Call) -> Val:
    value = call.arg(2, "value", 0.0)
    fill = 0 if value is None else value
    return call.b.add("pad", (call.x, fill), call.x.dtype, call.out.shape, before=before(call))


def _full(call: Call) -> Val:
    fill = {"zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1}.get(call.op)
    if fill is None:
        fill = call.arg(0) if call.op == "scalar_tensor" else call.arg(1, "fill_value")
    return call.b.add("full", (fill,), call.out.dtype, call.out.shape)


def _arange(call: Call) -> Val:
    start, step = (call.arg(0), call.arg(2, "step", 1)) if len(call.args) > 1 else (0, 1)
    if not all(isinstance(one, int) for one in (start, step)):
        raise Unsupported("arange of floats")
    return call.b.add("iota", (), call.out.dtype, call.out.shape, dim=0, start=start, step=step)


def _triangle(call: Call) -> Val:
    x, shift = call.x, call.arg(1, "diagonal", 0)
    rank = len(x.shape)
    row = call.b.add("iota", (), "int64", x.shape, dim=rank - 2, start=shift, step=1)
    col = call.b.add("iota", (), "int64", x.shape, dim=rank - 1, start=0, step=1)
    kept = call.b.map("le" if call.op == "tril" else "ge", col, row, dtype="bool")
    return call.b.map("where", kept, x, 0, dtype=x.dtype)


def _addmm(call: Call) -> Val:
    bias, a, b = call.args[:3]
    dot = _product(call, a, b, "float32" if a.dtype != "float64" else a.dtype)
    beta, alpha = call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1)
    if alpha != 1:
        dot = call.b.map("mul", dot, alpha)
    if beta != 1:
        bias = call.b.map("mul", bias, beta)
    return call.b.map("add", dot, bias, dtype=call.out.dtype)


def _product(call: Call, x: Val, y: Val, acc: str) -> Val:
    """A product of two matrices or of batches of them; with a single row or column, sums of rows instead of a tile product."""
    b, batched = call.b, math.prod(y.shape[:-2]) != 1
    rows = x.shape[-2] if batched else math.prod(x.shape[:-1])
    if 1 not in (rows, y.shape[-1]):
        return b.add("matmul", (x, y), acc, call.out.shape)
    turned = b.permute(y, (*range(len(y.shape) - 2), -1, -2))
    terms = b.map("mul", x, turned, dtype=acc, name=b.name("terms"))
    return b.view(b.reduce("sum", terms, (-1,), False, acc), call.out.shape)


def _matmul(call: Call) -> Val:
    a, b = call.args[:2]
    if call.op == "linear":
        b = call.b.permute(b, (1, 0))
    if len(a.shape) == 1:
        raise Unsupported("a product with a vector on the left")
    acc = a.dtype if a.dtype == "float64" else "float32"
    if len(b.shape) == 1:  # a row's sum
        return call.b.reduce(
            "sum", call.b.map("mul", a, b, dtype=acc), (len(a.shape) - 1,), False, call.out.dtype
        )
    made = _product(call, a, b, acc)
    bias = call.arg(2, "bias") if call.op == "linear" else None
    return made if bias is None else call.b.map("add", made, bias, dtype=call.out.dtype)


def _conv(call: Call) -> Val:
    x, weight, bias = call.arg(0), call.arg(1), call.arg(2, "bias")
    rank = len(x.shape) - 2
    names = ("stride", "padding", "dilation")
    if call.op == "convolution":
        stride, padding, dilation, transposed, out_pad, groups = call.args[3:9]
    else:
        stride, padding, dilation = (call.arg(3 + i, names[i], (1, 0, 1)[i]) for i in range(3))
        transposed, out_pad, groups = False, (0,) * rank, call.arg(6, "groups", 1)
    if isinstance(padding, str):
        raise Unsupported(f"a convolution with padding {padding}")
    many = tuple((one * rank if len(one) == 1 else one) if isinstance(one, tuple) else (one,) * rank
                 for one in (stride, padding, dilation))  # fmt: skip
    acc = x.dtype if x.dtype == "float64" else "float32"
    if weight.shape[0] == groups == 1 and not transposed and math.prod(weight.shape[1:]) > _DIRECT:
        return _one_filter(call, many, acc)
    made = call.b.add("conv", (x, weight), acc, call.out.shape, stride=many[0], padding=many[1], dilation=many[2],
                      transposed=bool(transposed), out_pad=tuple(out_pad), groups=groups)  # fmt: skip
    if bias is None:
        return made
    bias = call.b.view(bias, (bias.shape[0], *(1,) * rank))
    return call.b.map("add", made, bias, dtype=call.out.dtype)


def _one_filter(call: Call, how: tuple[tuple[int, ...], ...], acc: str) -> Val:
    """A convolution to one channel, as sums over channels and taps: too narrow for a tile product."""
    b, (x, weight), bias = call.b, call.args[:2], call.arg(2, "bias")
    rank = len(x.shape) - 2
    seen = patches(b, x, weight.shape[2:], call.out.shape[2:], (how[0], how[1], how[2]))
    terms = b.map("mul", seen, b.view(weight, (*weight.shape, *(1,) * rank)), dtype=acc, name=b.name("terms"))
    total = b.reduce("sum", terms, tuple(range(1, 2 + rank)), False, acc)
    made = b.view(total, call.out.shape)
    return made if bias is None else b.map("add", made, bias, dtype=call.out.dtype)


def _attention(call: Call) -> Val:
    q, k, v = call.args[:3]
    mask, dropout = call.arg(3, "attn_mask"), call.arg(4, "dropout_p", 0.0)
    if dropout:
        raise Unsupported("attention with dropout")
    scale = call.kwargs.get("scale")
    args = (q, k, v) if mask is None else (q, k, v, mask)
    return call.b.add("attention", args, call.out.dtype, call.out.shape, causal=bool(call.arg(5, "is_causal", False)),
                      scale=scale)  # fmt: skip


def _reduction(call: Call) -> Val | tuple[Val | None, ...]:
    b, op = call.b, call.op
    if op in ("max", "min") and len(call.args) > 1:
        dims, keep = call.dims(1), call.arg(2, "keepdim", False)
        best = b.reduce(f"a{op}", call.x, dims, keep, call.x.dtype)
        return best, b.reduce(f"arg{op}", call.x, dims, keep, "int64")
    rule = {"max": "amax", "min": "amin"}.get(op, op)
    named = len(call.args) > 1 and not (isinstance(call.args[1], str))
    dims = call.dims(1) if named or "dim" in call.kwargs else tuple(range(len(call.x.shape)))
    keep = (
        call.arg(2, "keepdim", False) if named or "dim" in call.kwargs else call.kwargs.get("keepdim", False)
    )
    if op in ("argmax", "argmin") and len(dims) != 1:
        flat = b.view(call.x, (math.prod(call.x.shape),))
        return b.reduce(rule, flat, (0,), False, "int64")
    return b.reduce(rule, call.x, dims, bool(keep), call.out.dtype)


def _mean(call: Call) -> Val:
    named = len(call.args) > 1 or "dim" in call.kwargs
    dims = call.dims(1) if named else tuple(range(len(call.x.shape)))
    return mean_of(call.b, call.x, dims, bool(call.arg(2, "keepdim", False)), call.out.dtype)


def _var(call: Call) -> Val | tuple[Val, ...]:
    b, x = call.b, call.x
    correction = call.kwargs.get("correction", 1)
    dims = call.dims(1)
    if len(call.args) > 1 and isinstance(call.args[1], bool):
        dims, correction = tuple(range(len(x.shape))), int(call.args[1])
    elif len(call.args) > 2:
        correction = int(call.args[2])
    correction = 1 if correction is None else correction
    keep = bool(call.arg(3, "keepdim", False))
    mean = mean_of(b, x, dims, True)
    centred = b.map("sub", x, mean, name=b.name("centred"))
    squares = b.reduce("sum", b.map("mul", centred, centred), dims, keep)
    var = b.map("div", squares, b.count(x, dims, float(correction)), dtype=call.out.dtype)
    if call.op.startswith("std"):
        var = b.map("sqrt", var, dtype=call.out.dtype)
    return (var, mean if keep else b.view(mean, var.shape)) if call.op.endswith("_mean") else var


def _softmax(call: Call) -> Val:
    b, x = call.b, call.x
    dim = call.arg(1, "dim") % max(len(x.shape), 1)
    peak = b.reduce("amax", x, (dim,), True, name=b.name("peak"))
    shifted = b.map("sub", x, peak, name=b.name("shifted"))
    powers = b.map("exp", shifted, name=b.name("powers"))
    total = b.reduce("sum", powers, (dim,), True, name=b.name("total"))
    if "log" in call.op:
        return b.map("sub", shifted, b.map("log", total), dtype=call.out.dtype)
    return b.map("div", powers, total, dtype=call.out.dtype)


def _logsumexp(call: Call) -> Val:
    b, x, dims = call.b, call.x, call.dims(1)
    peak = b.reduce("amax", x, dims, True, name=b.name("peak"))
    total = b.reduce("sum", b.map("exp", b.map("sub", x, peak)), dims, True, name=b.name("total"))
    made = b.map("add", b.map("log", total), peak, dtype=call.out.dtype)
    return made if call.arg(2, "keepdim", False) else b.view(made, call.out.shape)


def _layer_norm(call: Call) -> Val | tuple[Val, ...]:
    b, x, shape = call.b, call.x, call.arg(1)
    weight, bias, eps = call.arg(2, "weight"), call.arg(3, "bias"), call.arg(4, "eps", 1e-5)
    dims = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    made, mean, rstd = norm_of(b, x, dims, eps)
    made = affine(b, made, weight, bias, tuple(shape), call.out.dtype)
    return (made, mean, rstd) if call.op == "native_layer_norm" else made


def _rms_norm(call: Call) -> Val:
    b, x, shape = call.b, call.x, call.arg(1)
    eps = call.arg(3, "eps")
    eps = {"float32": 1.1920928955078125e-07, "bfloat16": 0.0078125, "float16": 0.0009765625}.get(
        x.dtype, 2.220446049250313e-16) if eps is None else eps  # fmt: skip
    dims = tuple(range(len(x.shape) - len(shape), len(x.shape)))
    squares = b.reduce("sum", b.map("mul", x, x, name=b.name("squared")), dims, True)
    mean = b.map("div", squares, b.count(x, dims), name=b.name("mean"))
    made = b.map("mul", x, b.map("rsqrt", b.map("add", mean, eps), name=b.name("rstd")))
    return affine(b, made, call.arg(2, "weight"), None, tuple(shape), call.out.dtype)


def _group_norm(call: Call) -> Val:
    b, x = call.b, call.x
    groups, weight, bias, eps = (
        call.arg(1),
        call.arg(2, "weight"),
        call.arg(3, "bias"),
        call.arg(4, "eps", 1e-5),
    )
    batch, channels, rest = x.shape[0], x.shape[1], x.shape[2:]
    split = b.view(x, (batch, groups, channels // groups * math.prod(rest)), fixed=(1,))
    made, _, _ = norm_of(b, split, (2,), eps)
    per_channel = (channels, *(1,) * len(rest))
    return affine(b, b.view(made, x.shape, like=x), weight, bias, per_channel, call.out.dtype)


def _batch_norm(call: Call) -> Val | tuple[Val, ...]:
    b, x = call.b, call.x
    weight, bias, mean, var = (call.arg(1 + i) for i in range(4))
    per_channel = (x.shape[1], *(1,) * (len(x.shape) - 2))
    if call.op == "batch_norm":
        training, eps = call.arg(5), call.arg(7)
    elif "no_training" in call.op:
        training, eps = False, call.arg(6)
    else:
        raise Unsupported(call.op)
    if training:
        dims = tuple(i for i in range(len(x.shape)) if i != 1)
        made, _, _ = norm_of(b, x, dims, eps)
        return affine(b, made, weight, bias, per_channel, call.out.dtype)
    rstd = b.map("rsqrt", b.map("add", b.view(var, per_channel), eps), name=b.name("rstd"))
    made = b.map("mul", b.map("sub", x, b.view(mean, per_channel)), rstd)
    made = affine(b, made, weight, bias, per_channel, call.out.dtype)
    return (made,) if call.op == "batch_norm" else (made, None, None)  # type: ignore[return-value]


def _loss(call: Call) -> Val:
    b, x, y = call.b, call.x, call.arg(1)
    how = call.arg(3 if call.op == "binary_cross_entropy" else 2, "reduction", 1)
    gap = b.map("sub", x, y, name=b.name("gap"))
    if call.op == "mse_loss":
        made = b.map("mul", gap, gap)
    elif call.op == "l1_loss":
        made = b.map("abs", gap)
    else:
        limit = call.arg(3, "beta" if "smooth" in call.op else "delta", 1.0)
        size = b.map("abs", gap)
        small = b.map("mul", b.map("mul", gap, gap), 0.5)
        large = b.map("sub", size, 0.5 * limit)
        if "smooth" in call.op:
            small = b.map("div", small, limit)
        else:
            large = b.map("mul", large, limit)
        made = b.map("where", b.map("lt", size, limit, dtype="bool"), small, large, dtype="float32")
    return reduce_loss(b, made, how, call.out.dtype)


def _scan(call: Call) -> Val:
    rank = max(len(call.x.shape), 1)
    return call.b.add(call.op, (call.x,), call.out.dtype, call.out.shape, dim=call.arg(1, "dim") % rank)


def _take(call: Call) -> Val:
    """`index_select(x, dim, index)` and `embedding(weight, index)`."""
    if call.op == "embedding":
        table, index, dim = call.arg(0), call.arg(1), 0
    else:
        table, dim, index = call.arg(0), call.arg(1) % len(call.x.shape), call.arg(2)
    return call.b.add("take", (table, index), call.out.dtype, call.out.shape, dim=dim)


def _gather(call: Call) -> Val:
    return call.b.add(
        "gather", (call.x, call.arg(2)), call.out.dtype, call.out.shape, dim=call.arg(1) % len(call.x.shape)
    )


def _pool(call: Call) -> Val | tuple[Val, ...]:
    rank = 3 if "3d" in call.op else 1 if "1d" in call.op else 2

    def many(one: Any) -> tuple[int, ...]:
        one = (one,) if isinstance(one, int) else tuple(one)
        return one * rank if len(one) == 1 else one

    kernel = many(call.arg(1))
    stride = many(call.arg(2, "stride") or kernel)
    padding = many(call.arg(3, "padding", 0))
    if call.op.startswith("max"):
        dilation = many(call.arg(4, "dilation", 1))
        made = call.b.add("window", (call.x,), call.out.dtype, call.out.shape, how="max", kernel=kernel, stride=stride,
                          padding=padding, dilation=dilation, counts=False, divisor=None)  # fmt: skip
        return (made,) if "indices" in call.op else made
    if call.arg(4, "ceil_mode", False):
        raise Unsupported("average pooling with ceil_mode")
    return call.b.add("window", (call.x,), call.out.dtype, call.out.shape, how="mean", kernel=kernel, stride=stride,
                      padding=padding, dilation=(1,) * rank, counts=bool(call.arg(5, "count_include_pad", True)),
                      divisor=call.arg(6, "divisor_override"))  # fmt: skip


def _adaptive(call: Call) -> Val:
    rank = 3 if "3d" in call.op else 1 if "1d" in call.op else 2
    size = call.arg(1)
    if any(one != 1 for one in ((size,) if isinstance(size, int) else size)):
        raise Unsupported("adaptive pooling to more than one place")
    dims = tuple(range(len(call.x.shape) - rank, len(call.x.shape)))
    return mean_of(call.b, call.x, dims, True, call.out.dtype)


_LOWERINGS: dict[str, Callable[[Call], Any]] = {
    **dict.fromkeys(["add", "sub", "rsub"], _scale),
    **dict.fromkeys(["clamp", "clamp_min", "clamp_max"], _clamp),
    **dict.fromkeys(["to", "_to_copy", "convert_element_type", "clone", "contiguous", "detach", "float", "type_as", "lift_fresh_copy"], _by("alias", 0)),
    **dict.fromkeys(["view", "_unsafe_view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "view_as"], _view),
    **dict.fromkeys(["permute", "transpose", "t", "numpy_T"], _permute),
    **dict.fromkeys(["expand", "broadcast_to", "expand_as"], _expand),
    **dict.fromkeys(["split", "chunk", "split_with_sizes"], _split),
    **dict.fromkeys(["full", "zeros", "ones", "full_like", "zeros_like", "ones_like", "scalar_tensor"], _full),
    **dict.fromkeys(["tril", "triu"], _triangle),
    **dict.fromkeys(["mm", "bmm", "matmul", "linear", "mv"], _matmul),
    **dict.fromkeys(["addmm", "baddbmm"], _addmm),
    **dict.fromkeys(["convolution", "conv1d", "conv2d", "conv3d"], _conv),
    **dict.fromkeys(["sum", "amax", "amin", "prod", "any", "all", "argmax", "argmin", "max", "min"], _reduction),
    **dict.fromkeys(["var", "std", "var_mean", "std_mean"], _var),
    **dict.fromkeys(["softmax", "_softmax", "log_softmax", "_log_softmax"], _softmax),
    **dict.fromkeys(["layer_norm", "native_layer_norm"], _layer_norm),
    **dict.fromkeys(["batch_norm", "_native_batch_norm_legit_no_training"], _batch_norm),
    **dict.fromkeys(["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"], _loss),
    **dict.fromkeys(["cumsum", "cumprod"], _scan),
    **dict.fromkeys(["index_select", "embedding"], _take),
    **dict.fromkeys(["max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "avg_pool1d", "avg_pool2d", "avg_pool3d"], _pool),
    **dict.fromkeys(["adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"], _adaptive),
    "convolution_backward": convolution_backward, "div": _div, "floor_divide": _by("div_floor", 0, 1), "gelu": _gelu, "pow": _pow, "lerp": _lerp, "glu": _glu, "prelu": _prelu,
    "slice": _slice, "select": _select, "cat": _cat, "stack": _stack, "flip": _flip, "constant_pad_nd": _pad,
    "arange": _arange, "masked_fill": _by("where", 1, 2, 0), "where": _by("where", 0, 1, 2), "scaled_dot_product_attention": _attention,
    **MOVES, **STATISTICS,
    "mean": _mean, "logsumexp": _logsumexp, "rms_norm": _rms_norm, "group_norm": _group_norm, "gather": _gather,
}  # fmt: skip
