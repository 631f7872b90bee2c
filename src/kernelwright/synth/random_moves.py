"""Moves of elements in random graphs: permutations, parts, joins, borders, shuffles, repetition."""

from __future__ import annotations

import math
from typing import Any

from kernelwright.synth.drawing import Drawing, Value
from kernelwright.synth.extents import NotDrawn

MOVES = ("permute", "flip", "roll", "cat", "stack", "chunk", "slice", "pad", "repeat", "repeat_interleave",
         "unsqueeze", "flatten", "tril", "triu", "select_scatter", "unbind", "select", "reflect", "replicate", "pixel",
         "upsample", "channels", "glu", "expand", "thirds", "heads", "rotate", "windows", "columns", "between")  # fmt: skip


class MoveDrawing(Drawing):
    """Adds moves."""

    def move(self, x: Value) -> Value:
        """Apply one random move. Raises NotDrawn if it does not apply."""
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
        if name == "heads" and rank == 3 and x.shape[2] % 8 == 0:
            heads = self.op("view", x, [*x.shape[:2], rng.choice((2, 4, 8)), -1], **span)
            return self.step(self.op("permute", heads, [0, 2, 1, 3], **span))
        if name == "windows" and x.shape[dim] > 8:
            return self.step(self.op("unfold", x, dim, rng.choice((2, 3, 4)), rng.choice((1, 2)), **span))
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
        if name == "thirds":
            wide = self.argument((*x.shape[:dim], 3 * x.shape[dim], *x.shape[dim + 1 :]))
            parts = self.builder.call("split_with_sizes", wide.handle, [x.shape[dim]] * 3, dim)
            return self.tried("mul", x, Value(parts[rng.randrange(3)], -5, 5, True))
        if name == "rotate" and x.shape[dim] % 2 == 0:
            half = x.shape[dim] // 2
            left = self.op("slice", x, dim, 0, half, **span)
            right = self.op("neg", self.op("slice", x, dim, half, 2**63 - 1, **span))
            most = max(abs(x.low), abs(x.high))
            return Value(self.builder.call("cat", [right.handle, left.handle], dim), -most, most)
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
        if name == "between" and math.prod(x.shape) < 2**22:
            how, corners = (
                rng.choice(("upsample_bilinear2d", "upsample_bilinear2d", "upsample_bicubic2d")),
                rng.random() < 0.3,
            )
            over = x.high - x.low if how == "upsample_bicubic2d" else 0.0
            factors = [2.0, rng.choice((2.0, 3.0))]
            y = self.builder.op(f"aten.{how}.vec", self.float_of(x).handle, None, corners, factors)
            return Value(y, x.low - over, x.high + over)
        if name == "columns" and math.prod(x.shape) < 2**22:
            side, pad, step = rng.choice((2, 3)), rng.choice((0, 1)), rng.choice((1, 2))
            ways = ([one] * 2 for one in (side, 1, pad, step))
            return self.op("im2col", self.float_of(x), *ways, low=min(x.low, 0), high=max(x.high, 0))
        if name == "upsample" and math.prod(x.shape) < 2**22:
            return self.op("upsample_nearest2d", x, [2 * height, 2 * width], **span)
        if name in ("channels", "pixel"):
            y = self.argument((b, 32, height, width))
            self.kept.add((y.handle.name, 1))
            op, by = ("channel_shuffle", (2, 4, 8)) if name == "channels" else ("pixel_shuffle", (2, 4))
            return self.op(op, y, rng.choice(by), low=-5, high=5, exact=True)
        return None
