"""Relations between sizes by operator: one rule per operator, over the unknowns of `dims.py`.

A rule gets a node and the dimensions of its inputs, relates them to each other, and gives the dimensions of its
outputs. Arguments that are sizes (of a reshape, bounds of a slice, groups of a depthwise convolution) come back as
expressions. Dimensions that a rule does not understand are pinned to the captured values.

    maps, where, losses      broadcast: dimensions at one position are equal, or 1
    linear, mm, attention    the summed dimension is equal on both sides
    reshape                  factors in memory order: 64 viewed as (4, 16) is a product of two unknowns
    expand, full, arange     a new unknown, pinned in the end unless something relates it to an argument
    cat, split               sums;  split into named parts, each an unknown
    slice                    a few elements cut off stay numbers; halves, thirds and quarters make the size a multiple
    convolution, pooling     windows, strides and paddings are numbers; the input is a multiple of the stride plus a rest
    groups                   channels are a multiple of them; in a depthwise convolution they equal channels, or stay a number if it
                             is the only contraction and has several filters per channel
    select, unbind, stack    the size of a dimension whose elements are addressed by index is pinned

Scalars computed from sizes (1/sqrt(d)) keep their captured values.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from kernelwright.graph import operators
from kernelwright.graph.dims import Expr, NotUnderstood, Unknowns, as_expr
from kernelwright.graph.types import Node, Operand, Ref, TensorType

Shape = list[Expr]
Sized = tuple[Any, ...]
"""An operator's arguments, with expressions for sizes."""

_FEW = 4
"""Most elements cut off by a slice that stay a number."""


class Rules:
    """Applies rules node by node; `shapes` has the dimensions of every value. `alone`: the graph has one contraction."""

    def __init__(self, unknowns: Unknowns, alone: bool = False) -> None:
        self.unknowns, self.alone = unknowns, alone
        self.shapes: dict[str, Shape] = {}

    def apply(self, node: Node) -> Sized:
        """Fill in the shapes of the node's outputs; returns its arguments with expressions for sizes."""
        name = operators.packet(node.op)
        rule = _RULES.get(name) if node.op.startswith("aten.") else None
        kind = operators.kind(node.op)
        if rule is None:
            rule = _BY_KIND.get(kind, _pin)
        try:
            outs, args = rule(self, node)
        except (
            NotUnderstood,
            IndexError,
            TypeError,
            ValueError,
            ZeroDivisionError,
        ):  # a form that no rule knows
            outs, args = _pin(self, node)
        for value, shape in zip(node.outputs, outs, strict=False):
            if value is None or not isinstance(value.type, TensorType):
                continue
            hints = [self.unknowns.hint(one) for one in shape]
            if hints != list(value.type.shape):
                self._give_up(node)
                shape = [as_expr(int(one)) for one in value.type.shape]
                args = node.args
            self.shapes[value.name] = shape
        for value in node.outputs[len(outs) :]:
            if value is not None and isinstance(value.type, TensorType):
                self.shapes[value.name] = [as_expr(int(one)) for one in value.type.shape]
        return args

    def _give_up(self, node: Node) -> None:
        for name in node.refs():
            self.unknowns.pin(*self.shapes.get(name, []))

    def shape(self, value: Operand) -> Shape:
        """The dimensions of a tensor; empty for a number."""
        return list(self.shapes.get(value.ref, [])) if isinstance(value, Ref) else []

    def broadcast(self, *shapes: Shape) -> Shape:
        """Relate dimensions aligned from the right: they are equal, or 1."""
        rank = max(map(len, shapes), default=0)
        found: Shape = []
        for at in range(-rank, 0):
            best = as_expr(1)
            for shape in shapes:
                if len(shape) >= -at and self.unknowns.hint(shape[at]) != 1:
                    if self.unknowns.hint(best) != 1:
                        self.unknowns.unify(best, shape[at])
                    else:
                        best = shape[at]
            found.append(best)
        return found

    def same(self, one: Expr, other: Expr) -> None:
        self.unknowns.unify(one, other)


Rule = Callable[[Rules, Node], tuple[Sequence[Shape], Sized]]


def arg(node: Node, place: int, default: Any = None) -> Any:
    return node.args[place] if len(node.args) > place else default


def _types(node: Node) -> list[TensorType | None]:
    return [
        one.type if one is not None and isinstance(one.type, TensorType) else None for one in node.outputs
    ]


def _out_rank(node: Node) -> int:
    return next((len(one.shape) for one in _types(node) if one is not None), 0)


def _pin(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    rules._give_up(node)
    return [], node.args


def _map(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    out = rules.broadcast(*(rules.shape(Ref(ref=name)) for name in node.refs()))
    return [out] * len(node.outputs), node.args


def _like_first(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    return [rules.shape(node.args[0])] * len(node.outputs), node.args


def _reduction(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    shape = rules.shape(node.args[0])
    schema = operators.resolve(node.op)._schema.arguments
    given: dict[str, Any] = {one.name: value for one, value in zip(schema, node.args, strict=False)}
    given |= dict(node.kwargs)
    dims = given.get("dim")
    places: list[int] = [dims] if isinstance(dims, int) else list(dims or range(len(shape)))
    places = [one % len(shape) for one in places] if shape else []
    keep = bool(given.get("keepdim", False))
    out = [as_expr(1) if at in places else one for at, one in enumerate(shape) if keep or at not in places]
    return [out] * len(node.outputs), node.args


def _loss(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    name = operators.packet(node.op)
    first, second = rules.shape(node.args[0]), rules.shape(node.args[1])
    if name.startswith(("cross_entropy", "nll")) and len(first) != len(second):
        kept = [one for at, one in enumerate(first) if at != min(1, len(first) - 1)]
        out = rules.broadcast(kept, second)
        weight = rules.shape(arg(node, 2))
        if weight:
            rules.same(weight[0], first[min(1, len(first) - 1)])
    else:
        out = rules.broadcast(first, second, *(rules.shape(one) for one in node.args[2:]))
    if _out_rank(node) == 0:
        out = []
    return [out, []], node.args


def _linear(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x, w, b = (rules.shape(arg(node, at)) for at in range(3))
    rules.same(x[-1], w[-1])
    if b:
        rules.same(b[0], w[0])
    return [[*x[:-1], *w[:-1]]], node.args


def _matmul(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    skip = 1 if operators.packet(node.op) in ("addmm", "baddbmm", "addmv") else 0
    x, y = rules.shape(node.args[skip]), rules.shape(node.args[skip + 1])
    rules.same(x[-1], y[-2] if len(y) > 1 else y[-1])
    batch = rules.broadcast(x[:-2], y[:-2])
    out = [*batch, *(x[-2:-1] if len(x) > 1 else []), *(y[-1:] if len(y) > 1 else [])]
    if skip:
        out = rules.broadcast(out, rules.shape(node.args[0]))
    return [out], node.args


def _int_mm(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """The number of terms stays: torch's own code for the CPU is wrong where it is 1, and on a GPU it divides by 8."""
    rules.unknowns.pin(rules.shape(node.args[0])[-1])
    return _matmul(rules, node)


def _attention(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    q, k, v = (rules.shape(one) for one in node.args[:3])
    rules.same(q[-1], k[-1])
    rules.same(k[-2], v[-2])
    grouped = dict(node.kwargs).get("enable_gqa") is True
    if grouped:
        ratio = rules.unknowns.hint(q[-3]) // rules.unknowns.hint(k[-3])
        rules.same(q[-3], k[-3] * ratio)
        rules.same(k[-3], v[-3])
        batch = [*rules.broadcast(q[:-3], k[:-3], v[:-3]), q[-3]]
    else:
        batch = rules.broadcast(q[:-2], k[:-2], v[:-2])
    mask = arg(node, 3, dict(node.kwargs).get("attn_mask"))
    if isinstance(mask, Ref):
        rules.broadcast([*batch, q[-2], k[-2]], rules.shape(mask))
    return [[*batch, q[-2], v[-1]]], node.args


def _convolution(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x, w, b = (rules.shape(arg(node, at)) for at in range(3))
    given: list[Any] = [*node.args[3:9]]
    stride, padding, dilation, transposed, extra, groups = given
    unknowns, count = rules.unknowns, len(w) - 2
    channels = x[-count - 1]
    rules.unknowns.pin(*w[2:])
    written: Any = groups
    inner = w[0] if transposed else w[1]
    if groups == 1:
        rules.same(channels, inner)
        out = w[1] if transposed else w[0]
    elif groups == unknowns.hint(channels) and not transposed:
        times = unknowns.hint(w[0]) // groups
        rules.same(w[0], channels * times)
        if rules.alone and times > 1:  # a single convolution takes the number of groups as constant
            unknowns.pin(channels)
        out, written = w[0], groups if rules.alone and times > 1 else channels
    elif transposed:
        rules.same(channels, inner)
        unknowns.divide(channels, groups)
        out = w[1] * groups
    else:
        rules.same(channels, inner * groups)
        unknowns.divide(w[0], groups)
        out = w[0]
    if b:
        rules.same(b[0], out)
    spatial = []
    for at in range(count):
        k, s, p, d = (
            _at(one, at) for one in (tuple(unknowns.hint(one) for one in w[2:]), stride, padding, dilation)
        )
        size = x[len(x) - count + at]
        if transposed:
            spatial.append(size * s + (d * (k - 1) + 1 - s - 2 * p + _at(extra, at)))
        else:
            spatial.append(unknowns.floor(size + (2 * p - d * (k - 1) - 1), s) + 1)
    args = (*node.args[:8], written)
    return [[*x[: -count - 1], out, *spatial]], args


def _convolution_backward(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """The convolution's own rule, with its result as the first argument."""
    grad, x, w, counted, *how, wanted = node.args
    forward = node.model_copy(update={"args": (x, w, None, *how)})
    [made], (*_, groups) = _convolution(rules, forward)
    for one, other in zip(rules.shape(grad), made, strict=True):
        rules.same(one, other)
    shapes = [rules.shape(x), rules.shape(w), made[1:2]]
    written = tuple(made[1:2]) if isinstance(counted, tuple) else counted
    return shapes, (grad, x, w, written, *how[:-1], groups, wanted)


def _pool(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    name = operators.packet(node.op)
    x = rules.shape(node.args[0])
    count = int(next(one for one in name if one.isdigit()))
    kernel = arg(node, 1)
    stride = arg(node, 2) or kernel
    padding = arg(node, 3, 0)
    average = name.startswith("avg")
    dilation = 1 if average else arg(node, 4, 1)
    out = []
    for at, made in enumerate(_types_shape(node)[-count:]):
        k, s, p, d = (_at(one, at) for one in (kernel, stride, padding, dilation))
        size = rules.unknowns.floor(x[len(x) - count + at] + (2 * p - d * (k - 1) - 1), s) + 1
        # The remainder of a row is the same at every size, and so is whether `ceil_mode` adds a window for it.
        out.append(size + (int(made) - rules.unknowns.hint(size)))
    return [[*x[:-count], *out]] * len(node.outputs), node.args


def _prelu(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x, w = rules.shape(node.args[0]), rules.shape(node.args[1])
    if len(x) > 1 and len(w) == 1 and rules.unknowns.hint(w[0]) != 1:
        rules.same(w[0], x[1])
    return [x], node.args


def _windows(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """unfold: window positions along one dimension, the window as last dimension."""
    x = rules.shape(node.args[0])
    dim, size, step = _at(node.args[1], 0) % len(x), _at(node.args[2], 0), _at(node.args[3], 0)
    x[dim] = rules.unknowns.floor(x[dim] - size, step) + 1
    return [[*x, as_expr(size)]], node.args


def _recurrent(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """lstm, gru, rnn: batch and steps vary, widths are those of the weights; states [layers and directions, batch, width]."""
    x, given = rules.shape(node.args[0]), node.args[1]
    states = [rules.shape(one) for one in (given if isinstance(given, tuple) else (given,))]
    weights = [rules.shape(one) for one in node.args[2]]  # type: ignore[union-attr]
    rules.unknowns.pin(x[-1], *(size for one in weights for size in one))
    for one in states:
        rules.unknowns.pin(one[0], one[-1])
        rules.same(one[1], x[0 if node.args[8] else 1])
    return [[*x[:-1], as_expr(_types_shape(node)[-1])], *states], node.args


def _patches(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """im2col: channels times window elements, by all window positions."""
    x = rules.shape(node.args[0])
    places, window = as_expr(1), 1
    for at in range(2):
        k, d, p, s = (_at(node.args[place], at) for place in (1, 2, 3, 4))
        places = places * (rules.unknowns.floor(x[at - 2] + (2 * p - d * (k - 1) - 1), s) + 1)
        window *= k
    return [[*x[:-3], x[-3] * window, places]], node.args


def _grid(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """grid_sampler: the output positions of the grid."""
    x, grid = rules.shape(node.args[0]), rules.shape(node.args[1])
    rules.same(x[0], grid[0])
    return [[*x[:2], *grid[1:-1]]], node.args


def _adaptive(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    sizes = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
    count = len(sizes)
    out = []
    for at, size in enumerate(sizes):
        place = x[len(x) - count + at]
        if isinstance(size, int) and size > 1:
            rules.unknowns.divide(place, size)
        out.append(as_expr(size) if isinstance(size, int) else place)
    return [[*x[:-count], *out]] * len(node.outputs), node.args


def _upsample(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    count = len(x) - 2
    sizes = [int(one) for one in _types_shape(node)[2:]]
    out = []
    for place, size in zip(x[2:], sizes, strict=True):
        hint = rules.unknowns.hint(place)
        if size % hint == 0:
            out.append(place * (size // hint))
        else:
            rules.unknowns.pin(place)
            out.append(as_expr(size))
    written = tuple(out) if isinstance(arg(node, 1), tuple) else arg(node, 1)
    args = (node.args[0], written, *node.args[2:])
    return [[*x[:2], *out[:count]]], args


def _types_shape(node: Node) -> tuple[Any, ...]:
    return next(one.shape for one in _types(node) if one is not None)


def _at(value: Any, place: int) -> int:
    """One element of a list, its last if it is shorter; or the one number for all positions."""
    if isinstance(value, tuple):
        return int(value[place] if len(value) > place else value[-1]) if value else 0
    return int(value)


def _layer_norm(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    count = len(node.args[1]) if isinstance(node.args[1], tuple) else 1
    for one in node.args[2:4]:
        if isinstance(one, Ref):
            rules.broadcast(x[-count:], rules.shape(one))
    statistics = [*x[:-count], *[as_expr(1)] * count]
    return [x, statistics, statistics], (node.args[0], tuple(x[-count:]), *node.args[2:])


def _group_norm(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    if operators.packet(node.op) != "group_norm":
        return _pin(rules, node)
    rules.unknowns.divide(x[1], _at(node.args[1], 0))
    for one in node.args[2:4]:
        if isinstance(one, Ref):
            rules.same(rules.shape(one)[0], x[1])
    return [x], node.args


def _batch_norm(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    for one in node.args[1:5]:
        if isinstance(one, Ref):
            rules.same(rules.shape(one)[0], x[1])
    empty = operators.packet(node.op) in ("_native_batch_norm_legit_no_training", "_batch_norm_no_update")
    statistic = [as_expr(0)] if empty else [x[1]]
    return [x, *[statistic] * (len(node.outputs) - 1)], node.args


def _norm(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    if "softmax" in node.op and "backward" not in node.op:
        return _like_first(rules, node)
    return _pin(rules, node)


def _reshape(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    sizes = [int(one) for one in _types_shape(node)]
    unknowns = rules.unknowns
    out: Shape = []
    left, right = 0, 0
    while right < len(sizes) or left < len(x):
        i, j = left + (left < len(x)), right + (right < len(sizes))
        inner = unknowns.hint(x[left]) if left < len(x) else 1
        outer = sizes[right] if right < len(sizes) else 1
        while inner != outer:
            if inner < outer:
                inner *= unknowns.hint(x[i])
                i += 1
            else:
                outer *= sizes[j]
                j += 1
        made = unknowns.split(x[left:i], sizes[right:j]) if i - left != 1 or j - right != 1 else [x[left]]
        out += made if made is not None else [as_expr(one) for one in sizes[right:j]]
        left, right = i, j
    return [out], (node.args[0], tuple(out))


def _expand(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    sizes = [int(one) for one in _types_shape(node)]
    out = []
    for at, size in enumerate(sizes):
        place = at - (len(sizes) - len(x))
        stretched = place < 0 or rules.unknowns.hint(x[place]) != size
        out.append(rules.unknowns.fresh(size) if stretched else x[place])
    return [out], (node.args[0], tuple(out))


def _permute(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    if operators.packet(node.op) != "permute":
        order = list(range(len(x)))
        i, j = (node.args[1], node.args[2]) if len(node.args) == 3 else (-2, -1)
        assert isinstance(i, int)
        assert isinstance(j, int)
        order[i], order[j] = order[j], order[i]
        return [[x[one] for one in order]], node.args
    assert isinstance(node.args[1], tuple)
    return [[x[int(str(one))] for one in node.args[1]]], node.args


def _unsqueeze(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    at = _at(node.args[1], 0)
    x.insert(at % (len(x) + 1), as_expr(1))
    return [x], node.args


def _squeeze(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    dims = arg(node, 1, tuple(range(len(x))))
    places = {one % len(x) for one in (dims if isinstance(dims, tuple) else (dims,))} if x else set()
    out = [one for at, one in enumerate(x) if at not in places or rules.unknowns.hint(one) != 1]
    return [out], node.args


def _select(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    dim, index = _at(node.args[1], 0) % len(x), _at(node.args[2], 0)
    if index not in (0, -1):
        rules.unknowns.pin(x[dim])
    return [[one for at, one in enumerate(x) if at != dim]], node.args


def _unbind(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    dim = _at(arg(node, 1, 0), 0) % len(x)
    rules.unknowns.pin(x[dim])
    return [[one for at, one in enumerate(x) if at != dim]] * len(node.outputs), node.args


def _slice(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x, unknowns = rules.shape(node.args[0]), rules.unknowns
    dim, first, last, step = (_at(arg(node, at, one), 0) for at, one in ((1, 0), (2, 0), (3, 0), (4, 1)))
    size = x[dim]
    n = unknowns.hint(size)
    if min(first, last) < -_FEW:
        raise NotUnderstood("counted from the end, and far from it")
    start, end = (max(0, min(n, one + n if one < 0 else one)) for one in (first, last))
    bounds: tuple[Expr | int, Expr | int] = (start, end)
    fraction = next(
        (m for m in (2, 3, 4) if n > _FEW and n % m == 0 and not (start * m) % n and not (end * m) % n), 0
    )
    if step != 1:
        part = unknowns.divide(size, step) if start < step and end == n and n % step == 0 else None
        if part is None:
            unknowns.pin(size)
            part = as_expr(-(-(end - start) // step))
        else:
            bounds = (start, size)
        made = part
    elif n > _FEW and start <= _FEW and n - end <= _FEW and end - start > _FEW:
        made, bounds = size - (start + n - end), (start, size - (n - end))
    elif fraction:
        part = _part(rules, size, fraction)
        made, bounds = (
            part * ((end - start) * fraction // n),
            (part * (start * fraction // n), part * (end * fraction // n)),
        )
    elif n > 2 * _FEW and (end <= _FEW or (n - start <= _FEW and end == n)):
        made = as_expr(end - start)
        bounds = (start, end) if end <= _FEW else (size - (n - start), size)
    else:
        unknowns.pin(size)
        made = as_expr(end - start)
    x[dim] = unknowns.now(made)
    counted = first if first < 0 else bounds[0], last if last < 0 or last > n else bounds[1]
    return [x], (node.args[0], dim, *counted, *((step,) if step != 1 else ()))


def _split(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x, unknowns = rules.shape(node.args[0]), rules.unknowns
    dim = _at(arg(node, 2, 0), 0) % len(x)
    n = unknowns.hint(x[dim])
    given = node.args[1]
    sizes = [int(str(one)) for one in given] if isinstance(given, tuple) else []
    if isinstance(given, int):
        sizes = [min(given, n - at) for at in range(0, n, given)]
    if len(set(sizes)) == 1:
        part = unknowns.divide(x[dim], len(sizes))
        parts = [part if part is not None else as_expr(sizes[0])] * len(sizes)
    else:
        parts = [unknowns.fresh(one) for one in sizes]
        total = as_expr(0)
        for one in parts:
            total = total + one
        unknowns.unify(total, x[dim])
    outs = [[*x[:dim], one, *x[dim + 1 :]] for one in parts]
    written: Any = tuple(parts) if isinstance(given, tuple) else parts[0]
    return outs, (node.args[0], written, *node.args[2:])


def _cat(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    given = node.args[0] if isinstance(node.args[0], tuple) else ()
    shapes = [
        one for value in given if (one := rules.shape(value)) and rules.unknowns.hint(one[0]) + len(one) > 1
    ]
    dim = _at(arg(node, 1, 0), 0) % len(shapes[0])
    total = as_expr(0)
    out = list(shapes[0])
    for one in shapes:
        total = total + one[dim]
        for at in range(len(out)):
            if at != dim:
                rules.same(out[at], one[at])
    out[dim] = total
    return [out], node.args


def _stack(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    given = node.args[0] if isinstance(node.args[0], tuple) else ()
    out = rules.broadcast(*(rules.shape(one) for one in given))
    out.insert(_at(arg(node, 1, 0), 0) % (len(out) + 1), as_expr(len(given)))
    return [out], node.args


def _create(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    name = operators.packet(node.op)
    if name.endswith("_like"):
        return _like_first(rules, node)
    if name in ("full", "zeros", "ones", "empty") and isinstance(node.args[0], tuple):
        out = [rules.unknowns.fresh(int(str(one))) for one in node.args[0]]
        return [out], (tuple(out), *node.args[1:])
    if name == "arange":
        numbers = [one for one in node.args if isinstance(one, int)]
        start, end, step = (0, numbers[0], 1) if len(numbers) == 1 else (*numbers, 1)[:3]
        if len(numbers) == len(node.args) and step > 0 and (end - start) % step == 0:
            size = rules.unknowns.fresh((end - start) // step)
            last = size * step + start
            return [[size]], (last,) if len(numbers) == 1 else (start, last, *node.args[2:])
    return [], node.args


def _embedding(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    return [[*rules.shape(node.args[1]), *rules.shape(node.args[0])[1:]]], node.args


def _index(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    indices = list(node.args[1]) if isinstance(node.args[1], tuple) else []
    indices += [None] * (len(x) - len(indices))
    taken = [at for at, one in enumerate(indices) if one is not None]
    new = rules.broadcast(*(rules.shape(indices[at]) for at in taken))
    kept = [one for at, one in enumerate(x) if at not in taken]
    together = taken == list(range(taken[0], taken[0] + len(taken)))
    place = taken[0] if together else 0
    return [[*kept[:place], *new, *kept[place:]]], node.args


def _gather(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    if operators.packet(node.op) == "index_select":
        x, dim = rules.shape(node.args[0]), _at(node.args[1], 0)
        x[dim] = (rules.shape(node.args[2]) or [as_expr(1)])[0]
        return [x], node.args
    index = rules.shape(node.args[2])
    _alike(rules, rules.shape(node.args[0]), index, _at(node.args[1], 0))
    return [index], node.args


def _index_put(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """index_put: values have the shape that indexing would read."""
    [[read], _] = _index(rules, node)
    rules.broadcast(read, rules.shape(node.args[2]))
    return [rules.shape(node.args[0])], node.args


def _scatter(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """scatter, scatter_add: as many values as indices; index_add, index_copy: a whole row for each index."""
    x, index, values = (rules.shape(node.args[at]) for at in (0, 2, 3))
    dim = _at(node.args[1], 0) % max(1, len(x))
    if operators.packet(node.op).startswith("index"):
        _alike(rules, x, values, dim)
        _alike(rules, index, values[dim : dim + 1])
    else:
        _alike(rules, x, index, dim)
        _alike(rules, index, values)
    return [x], node.args


def _alike(rules: Rules, one: Shape, other: Shape, apart: int | None = None) -> None:
    """Equate dimensions that have the same captured size, except the one at `apart`."""
    for at, (left, right) in enumerate(zip(one, other, strict=False)):
        other_dim = apart is None or at != apart % len(one)
        if other_dim and rules.unknowns.hint(left) == rules.unknowns.hint(right):
            rules.same(left, right)


def _pad(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    pads = [int(str(one)) for one in node.args[1]] if isinstance(node.args[1], tuple) else []
    for at in range(len(pads) // 2):
        place = len(x) - 1 - at
        x[place] = x[place] + (pads[2 * at] + pads[2 * at + 1])
    return [x], node.args


def _place(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """select_scatter: replaces one index of a dimension by another tensor."""
    x = rules.shape(node.args[0])
    [[kept], _] = _select(rules, Node(op=node.op, args=(node.args[0], *node.args[2:]), outputs=node.outputs))
    rules.broadcast(kept, rules.shape(node.args[1]))
    return [x], node.args


def _copies(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """repeat_interleave: repeats each element a fixed number of times."""
    x, times, dim = rules.shape(node.args[0]), _at(node.args[1], 0), arg(node, 2)
    if dim is None:
        x, dim = [functools.reduce(operator.mul, x)], 0
    x[dim] = x[dim] * times
    return [x], node.args


def _repeat(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    times = [int(str(one)) for one in node.args[1]] if isinstance(node.args[1], tuple) else []
    x = [*[as_expr(1)] * (len(times) - len(x)), *x]
    return [[one * n for one, n in zip(x, times, strict=True)]], node.args


def _glu(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x = rules.shape(node.args[0])
    dim = _at(arg(node, 1, -1), 0) % len(x)
    x[dim] = _part(rules, x[dim], 2)
    return [x], node.args


def _part(rules: Rules, size: Expr, by: int) -> Expr:
    found = rules.unknowns.divide(size, by)
    if found is None:
        raise NotUnderstood(f"{size} is no multiple of {by}")
    return found


def _shuffle(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    x, r = rules.shape(node.args[0]), _at(node.args[1], 0)
    channels, height, width = x[-3:]
    if operators.packet(node.op) == "pixel_shuffle":
        return [[*x[:-3], _part(rules, channels, r * r), height * r, width * r]], node.args
    return [[*x[:-3], channels * (r * r), _part(rules, height, r), _part(rules, width, r)]], node.args


def _sides(rules: Rules, node: Node) -> tuple[Sequence[Shape], Sized]:
    """sort keeps the shape; topk sets one dimension."""
    x = rules.shape(node.args[0])
    if operators.packet(node.op) == "topk":
        x[_at(arg(node, 2, -1), 0) % len(x)] = as_expr(_at(node.args[1], 0))
    return [x, x], node.args


_RULES: dict[str, Rule] = {
    "linear": _linear, "mm": _matmul, "_int_mm": _int_mm, "bmm": _matmul, "addmm": _matmul, "baddbmm": _matmul, "matmul": _matmul,
    "mv": _matmul, "dot": _matmul, "addmv": _matmul, "scaled_dot_product_attention": _attention,
    "convolution": _convolution, "convolution_backward": _convolution_backward, "layer_norm": _layer_norm, "rms_norm": _layer_norm, "native_layer_norm": _layer_norm,
    "group_norm": _group_norm, "native_group_norm": _group_norm, "batch_norm": _batch_norm, "instance_norm": _batch_norm,
    "prelu": _prelu, "unfold": _windows, "im2col": _patches, "grid_sampler_2d": _grid, "grid_sampler_3d": _grid,
    "_native_batch_norm_legit": _batch_norm, "_native_batch_norm_legit_no_training": _batch_norm, "_native_batch_norm_legit_functional": _batch_norm,
    "_softmax": _like_first, "_log_softmax": _like_first,
    "reshape": _reshape, "view": _reshape, "_unsafe_view": _reshape, "expand": _expand, "permute": _permute,
    "transpose": _permute, "t": _permute, "unsqueeze": _unsqueeze, "squeeze": _squeeze, "select": _select,
    "unbind": _unbind, "slice": _slice, "split": _split, "split_with_sizes": _split, "alias": _like_first,
    "cat": _cat, "stack": _stack, "clone": _like_first, "flip": _like_first, "roll": _like_first, "copy": _map,
    "select_scatter": _place, "repeat_interleave": _copies, "take": lambda rules, node: ([rules.shape(node.args[1])], node.args),
    "constant_pad_nd": _pad, "reflection_pad1d": _pad, "reflection_pad2d": _pad, "reflection_pad3d": _pad,
    "replication_pad1d": _pad, "replication_pad2d": _pad, "replication_pad3d": _pad, "repeat": _repeat,
    "pixel_shuffle": _shuffle, "pixel_unshuffle": _shuffle, "glu": _glu,
    "embedding": _embedding, "index": _index, "_unsafe_index": _index, "gather": _gather, "index_select": _gather,
    **dict.fromkeys(("index_put", "_unsafe_index_put"), _index_put),
    **dict.fromkeys(("scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy"), _scatter),
    **dict.fromkeys(operators.RECURRENT, _recurrent),
    "sort": _sides, "topk": _sides, "tril": _like_first, "triu": _like_first,
    **dict.fromkeys(("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"), _pool),
    **dict.fromkeys(("max_pool2d_with_indices", "max_pool3d_with_indices"), _pool),
    **{f"adaptive_{kind}_pool{n}d": _adaptive for kind in ("avg", "max") for n in (1, 2, 3)},
    **dict.fromkeys(("_adaptive_avg_pool2d", "_adaptive_avg_pool3d"), _adaptive),
    **{name: _upsample for name in ("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
       *(f"_upsample_nearest_exact{n}d" for n in (1, 2, 3)),
       "upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d")},
}  # fmt: skip

_BY_KIND: dict[str, Rule] = {
    "map": _map, "reduction": _reduction, "loss": _loss, "scan": _like_first, "create": _create, "norm": _norm,
    "scatter": _like_first, "random": _like_first,
}  # fmt: skip
