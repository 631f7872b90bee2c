"""Random graphs over some two hundred ATen operators, each with a nest: maps, rows, scans, products, windows, moves.

A graph grows from one central operator (or none): a few maps and moves prepare its inputs, more follow its outputs, and one to
three values are returned. Each value has an interval that contains its elements. An elementwise operator is accepted only if, on
a grid over those intervals in float64, it is finite, not large, and not steep: so steps (floor, comparisons) act only on
arguments, and no reference is all NaN or noise. Sizes come from `extents.py`.

A graph need not be meaningful, and the library may have no nest for it.
"""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Literal

import torch

from kernelwright.graph.draws import Draw
from kernelwright.graph.operators import packet
from kernelwright.graph.simplify import live_nodes
from kernelwright.graph.types import Graph
from kernelwright.synth.building import Handle
from kernelwright.synth.drawing import ANYTHING, Value, Within
from kernelwright.synth.extents import NotDrawn
from kernelwright.synth.random_rows import RowDrawing

LOSSES = (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits",
    "soft_margin_loss", "cross_entropy_loss",
)  # fmt: skip
Form = Literal[
    "map", "row", "norm", "loss", "several", "product", "convolution", "attention", "scan", "window",
    "lookup", "moves",
]  # fmt: skip
FORMS: dict[Form, int] = {"map": 20, "row": 17, "norm": 14, "loss": 5, "several": 6, "product": 15, "convolution": 9, "attention": 3, "scan": 5,
                          "window": 5, "lookup": 5, "moves": 8}  # fmt: skip
"""Relative frequency of each form."""


@dataclasses.dataclass
class Drawn:
    """A graph with integer sizes, how its arguments are drawn, and dimensions that must not become symbols."""

    graph: Graph
    draws: dict[str, Draw]
    kept: set[tuple[str, int]]
    form: str


def random_graph(
    rng: random.Random, dtype: str, form: Form | None = None, within: Within = ANYTHING
) -> Drawn:
    """A graph of that main dtype. Raises NotDrawn if the draw failed, or used an operator that is not allowed."""
    form = form or rng.choices(list(FORMS), list(FORMS.values()))[0]
    drawer = _Forms(rng, dtype, within)
    try:
        results = getattr(drawer, f"_{form}")()
        graph = drawer.builder.graph(*dict.fromkeys(one.handle for one in results))
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        raise NotDrawn(f"torch refuses a {form}: {type(error).__name__}") from None
    if not graph.nodes or any(math.prod(one.shape) > 2**27 for one in results):
        raise NotDrawn("nothing, or too much")
    if within.operators and not {packet(node.op) for node in graph.nodes} <= set(within.operators):
        raise NotDrawn("an operator that is not asked for")
    nodes, read = live_nodes(graph.nodes, graph.results)
    arguments = tuple(one for one in graph.arguments if one.name in read)
    graph = graph.model_copy(update={"arguments": arguments, "nodes": tuple(nodes)})
    draws = {name: draw for name, draw in drawer.draws.items() if name in read}
    kept = {(name, dim) for name, dim in drawer.kept if name in read}
    return Drawn(graph, draws, kept, form)


class _Forms(RowDrawing):
    """One random graph under construction, by form."""

    def start(self, rank: int = 0) -> Value:
        others = int(bool(self.among(["_to_copy"])))  # these become floats by a cast
        kind = self.rng.choices(("float", "int32", "int64", "bool"), (16, others, others, others))[0]
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

    def _several(self) -> list[Value]:
        """Reductions over one dimension after those over another, sums next to running sums, results of several sizes."""
        rng = self.rng
        x = self.chain(self.floats(self.shape(rng.choice((2, 3, 3, 4)))), 2)
        x, how = self.float_of(x), rng.choice(("norms", "scan", "sizes", "mean"))
        first, second = rng.sample(range(len(x.shape)), 2)
        if how == "norms":
            for dim in (first, second):
                name = rng.choice(("softmax", "mean", "amax"))
                y = (
                    self.op(name, x, dim, low=0, high=1)
                    if name == "softmax"
                    else self.op(name, x, [dim], True)
                )
                x = y if name == "softmax" else self.op("sub", x, y, low=-10, high=10)
            return self.finished(self.chain(x, 2))
        if how == "mean":
            y = self.op("linalg_vector_norm", x, 2, [first], False, low=0, high=100)
            return self.finished(self.op("mean", self.chain(y, 1)))
        if how == "scan":
            running = self.op("cumsum", x, first, low=-60, high=60)
            total = self.op("sum", x, [first], True, low=-60, high=60)
            return self.finished(self.op("sub", total, running, low=-90, high=90))
        read = self.chain(self.other(x), 2, 1)
        made = self.tried("mul", x, read)
        return self.finished(made if made is not None else self.step(x), self.float_of(read))

    def _loss(self) -> list[Value]:
        x = self.chain(self.floats(self.shape(self.rng.choice((2, 2, 3, 4)))), 1)
        name, how = self.rng.choice(LOSSES), self.rng.choice((0, 1, 1, 2))
        if name == "cross_entropy_loss":
            x = self.float_of(x)
            target = self.places((x.shape[0], *x.shape[2:]))
            return [self.op(name, x, target, None, how, -100, self.rng.choice((0.0, 0.1)))]
        if name == "binary_cross_entropy_with_logits":
            return [self.op(name, x, self.argument(x.shape, kind="unit"), None, None, how)]
        return [self.op(name, self.float_of(x), self.floats(x.shape), how)]

    def _product(self) -> list[Value]:
        rng = self.rng
        how = rng.choices(("linear", "mm", "bmm", "addmm", "matmul", "mv", "tied"), (8, 3, 3, 1, 2, 1, 1))[0]
        m, n, k = (self.extents[letter] for letter in "MNK")
        turned = rng.random() < 0.3  # transposes the second operand, like keys in explicitly computed scores
        if turned and rng.random() < 0.3:
            n = m
        while m * k + n * k + m * n > 2**26:
            m, n, k = (max(16, one // 2) for one in (m, n, k))
        if rng.random() < 0.08:
            m, n = rng.choice(((1, n), (m, 1)))
        if how == "linear":
            lead = (m,) if rng.random() < 0.5 else (max(1, m // 64), min(m, 64))
            x, w = self.argument((*lead, k)), self.argument((n, k), role="weight")
            bias = self.argument((n,), role="weight") if rng.random() < 0.6 else None
            y = self.op("linear", x, w, bias)
        elif how in ("mm", "addmm", "mv", "tied"):
            x, w = (
                self.argument((m, k)),
                self.argument((k,), role="weight") if how == "mv" else self._right((k, n), turned),
            )
            if how == "tied":
                x = self.argument((k, m))
                x = self.op("permute", x, [1, 0], low=x.low, high=x.high)
            added = [self.other(self.op_shape((m, n)))] if how == "addmm" else []
            y = self.op(how if how != "tied" else "mm", *added, x, w)
        else:
            b = rng.choice((2, 4, 8, 16))
            x, w = (
                self.argument((b, m // b + 1, k)),
                self._right((b, k, n // b + (16 if n != m else 1)), turned),
            )
            y = self.op("bmm" if how == "bmm" else "matmul", x, w)
        return self.finished(self.chain(y, 4))

    def _right(self, shape: tuple[int, ...], turned: bool) -> Value:
        """A product's second operand; `turned`: an input whose last two dimensions are swapped by a permute."""
        if not turned:
            return self.argument(shape, role="weight")
        *batch, k, n = shape
        w = self.argument((*batch, n, k))
        order = [*range(len(batch)), len(batch) + 1, len(batch)]
        return self.op("permute", w, order, low=w.low, high=w.high)

    def op_shape(self, shape: tuple[int, ...]) -> Value:
        """A value with only a shape, for `other`."""
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
        few = kernel**rank * (c // groups) <= 64  # small enough for a direct sum to unroll
        self.kept |= {(w.handle.name, dim) for dim in range(1 if few else 2, 2 + rank)}
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
        window = ([one] * rank for one in (size, step, pad))
        y = self.op(f"{how}_pool{rank}d", self.float_of(x), *window, low=x.low, high=x.high)
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
        elif how == "index" and dim + 1 < len(x.shape) and rng.random() < 0.5:
            pair = [self.places((self.extents["F"],)).handle for _ in range(2)]
            y = Value(self.builder.call(how, x.handle, [*[None] * dim, *pair]), x.low, x.high, x.exact)
        elif how == "index":
            y = self.builder.call(how, x.handle, [*[None] * dim, self.places((self.extents["F"],)).handle])
            y = Value(y, x.low, x.high, x.exact)
        elif how == "take":
            # With fewer, the judge sees too little at full size.
            places = max(self.extents["F"], math.prod(x.shape) // 4)
            y = self.op(how, x, self.argument((places,), "int64"), low=x.low, high=x.high, exact=x.exact)
        else:
            y = self.op(how, x, dim, self.places((self.extents["F"],)), low=x.low, high=x.high, exact=x.exact)
        return self.finished(self.chain(y, 3))
