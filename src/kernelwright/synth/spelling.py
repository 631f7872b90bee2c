"""Builds graphs from one line: arguments with their dimensions, and an expression over ATen operators.

    rms_norm gated     x:[R,W] z:[R,W] w:weight[W]      mul(rms_norm(x, [W], w, 1e-6), silu(z))

    name:kind[dimensions]   kind: empty (floats of the main dtype), `weight`, `pos` (above 0), `unit` (0 to 1), `logp` (log
                            probabilities), a dtype (`int64`, `bool`, `float32`), `idx` (indices, bounded by what they index)
    a; b; c                 statements; the last one is the result, a tuple for several
    f32(x), main(x)         casts to float32, and to the main dtype

Letters are sizes of `extents.py`; arithmetic with them is allowed. Dimensions in lower case (`n3`) are the constant 3.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Mapping
from typing import Any

import torch

from kernelwright.graph.draws import Draw
from kernelwright.synth.building import GraphBuilder, Handle
from kernelwright.synth.extents import Extents

_ARGUMENT = re.compile(r"(\w+):(\w*)\[([^\]]*)\]")
DRAWS = {
    "pos": Draw("torch.rand({shape}{dtype}) + 0.1"),
    "unit": Draw("0.98 * torch.rand({shape}{dtype}) + 0.01"),
    "logp": Draw("torch.randn({shape}{dtype}).log_softmax(-1)"),
    "prob": Draw("torch.randn({shape}{dtype}).softmax(-1)"),
    "sign": Draw("torch.where(torch.rand({shape}) < 0.5, -1.0, 1.0).to({name})"),
}
_CALLS = {"f32": "float32", "f16": "float16", "i32": "int32", "i64": "int64", "b1": "bool"}


class Spelled:
    """One row as a graph: `graph`, how its arguments are drawn, and dimensions that must not become symbols."""

    def __init__(self, name: str, arguments: str, body: str, dtype: str, rng: random.Random) -> None:
        self.rng, self.dtype, self.extents = rng, dtype, Extents(rng)
        self.builder = GraphBuilder(re.sub(r"\W+", "_", name))
        self.draws: dict[str, Draw] = {}
        self.kept: set[tuple[str, int]] = set()
        self.values: dict[str, Any] = {"dtype": getattr(torch, dtype)}
        for argument in _ARGUMENT.finditer(arguments):
            self._argument(*argument.groups())
        statements = ast.parse(body).body
        result: Any = None
        for one in statements:
            result = self._statement(one)
        results = result if isinstance(result, tuple) else (result,)
        self.graph = self.builder.graph(*results)

    def _argument(self, name: str, kind: str, dims: str) -> None:
        shape = []
        for at, text in enumerate(filter(None, (one.strip() for one in dims.split(",")))):
            if re.fullmatch(r"n\d+", text):
                shape.append(int(text[1:]))
                self.kept.add((name, at))
            else:
                shape.append(self._size(ast.parse(text, mode="eval").body))
        dtype = "int64" if kind == "idx" else self.dtype
        if hasattr(torch, kind) and kind not in ("unit", "sign"):
            dtype = kind
        role: Any = "weight" if kind == "weight" else "input"
        self.values[name] = self.builder.input(name, dtype, tuple(shape), role)
        if kind in DRAWS:
            self.draws[name] = DRAWS[kind]

    def _size(self, node: ast.expr) -> int:
        value = self._value(node)
        assert isinstance(value, int), ast.unparse(node)
        return value

    def _statement(self, node: ast.stmt) -> Any:
        if isinstance(node, ast.Assign):
            value, target = self._value(node.value), node.targets[0]
            if isinstance(target, ast.Tuple):
                for one, part in zip(target.elts, value, strict=True):
                    assert isinstance(one, ast.Name)
                    self.values[one.id] = part
            else:
                assert isinstance(target, ast.Name)
                self.values[target.id] = value
            return value
        assert isinstance(node, ast.Expr), ast.unparse(node)
        return self._value(node.value)

    def _value(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.values[node.id] if node.id in self.values else self.extents[node.id]
        if isinstance(node, ast.Tuple):
            return tuple(self._value(one) for one in node.elts)
        if isinstance(node, ast.List):
            return [self._value(one) for one in node.elts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self._value(node.operand)
        if isinstance(node, ast.BinOp):
            left, right = self._value(node.left), self._value(node.right)
            return _ARITHMETIC[type(node.op)](left, right)
        if isinstance(node, ast.Subscript):
            return self._value(node.value)[self._value(node.slice)]
        assert isinstance(node, ast.Call), ast.unparse(node)
        assert isinstance(node.func, ast.Name)
        return self._call(node.func.id, [self._value(one) for one in node.args],
                          {one.arg or "": self._value(one.value) for one in node.keywords})  # fmt: skip

    def _call(self, name: str, args: list[Any], kwargs: Mapping[str, Any]) -> Any:
        if name == "number":  # a random number between two bounds
            low, high = args
            return round(self.rng.uniform(low, high), 2)
        if name == "pick":
            return self.rng.choice(args)
        if name == "main" or name in _CALLS:
            dtype = getattr(torch, _CALLS.get(name, self.dtype))
            if args[0].meta.dtype == dtype:
                return args[0]
            return self.builder.op("aten._to_copy.default", args[0], dtype=dtype)
        return self.builder.call(name, *args, **kwargs)


_ARITHMETIC: dict[type[ast.operator], Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Pow: lambda a, b: a**b,
    ast.Div: lambda a, b: a / b,
}

__all__ = ["DRAWS", "Handle", "Spelled"]
