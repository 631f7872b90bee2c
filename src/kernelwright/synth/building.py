"""Builds graphs by hand: operators by name; torch infers types on meta tensors.

    b = GraphBuilder("linear_gelu")
    x, w = b.input("x", "bfloat16", (1024, 8192)), b.input("w", "bfloat16", (8192, 8192), role="weight")
    graph = b.graph(b.op("aten.gelu.default", b.op("aten.linear.default", x, w)))

For the catalogue, random graphs, benchmarks and tests. Sizes are integers; symbols are added by capturing.
"""

from __future__ import annotations

from typing import Any, Literal

import torch

from kernelwright.graph.types import Argument, DtypeArg, Graph, Node, Operand, Other, Ref, TensorType, Value
from kernelwright.synth.primitives import add_name

_NAMES = {getattr(torch, name): name for name in (
    "float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")}  # fmt: skip


class Handle:
    """A value of the graph under construction."""

    def __init__(self, name: str, meta: torch.Tensor) -> None:
        self.name, self.meta = name, meta


class GraphBuilder:
    """Collects arguments and nodes in order."""

    def __init__(self, name: str = "graph") -> None:
        self.title = name
        self.arguments: list[Argument] = []
        self.nodes: list[Node] = []
        self._names: set[str] = set()

    def input(self, name: str, dtype: str, shape: tuple[int, ...],
              role: Literal["input", "weight", "buffer", "constant"] = "input") -> Handle:  # fmt: skip
        """Add an argument."""
        meta = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        self.arguments.append(Argument(name=name, type=_type(meta), role=role))
        self._names.add(name)
        return Handle(name, meta)

    def op(self, op: str, *args: Any, **kwargs: Any) -> Any:
        """Add an operator call, `namespace.name.overload`; returns a tuple of handles if it has several results."""
        function: Any = torch.ops
        for part in op.split("."):
            function = getattr(function, part)
        made = function(*map(_meta, args), **{name: _meta(one) for name, one in kwargs.items()})
        many = isinstance(made, (tuple, list))
        name = op.split(".")[1].strip("_").lower()
        results = made if many else [made]
        handles = [None if one is None else Handle(add_name(name, self._names), one) for one in results]
        self.nodes.append(Node(
            op=op, args=tuple(map(_operand, args)), kwargs=tuple((name, _operand(one)) for name, one in kwargs.items()),
            outputs=tuple(one and Value(name=one.name, type=_type(one.meta)) for one in handles),
        ))  # fmt: skip
        return tuple(handles) if many else handles[0]

    def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Add an ATen operator by its bare name; the arguments determine the overload. Raises torch's error if there is none."""
        overload = torch._C._jit_resolve_packet(
            f"aten::{name}", *map(_meta, args), **{key: _meta(one) for key, one in kwargs.items()}
        )
        return self.op(f"aten.{name}.{overload or 'default'}", *args, **kwargs)

    def graph(self, *results: Handle) -> Graph:
        """The graph with these results."""
        return Graph(name=self.title, arguments=tuple(self.arguments), nodes=tuple(self.nodes),
                     results=tuple(one.name for one in results))  # fmt: skip


def _type(meta: torch.Tensor) -> TensorType:
    return TensorType(dtype=_NAMES[meta.dtype], shape=tuple(meta.shape))


def _meta(one: Any) -> Any:
    if isinstance(one, Handle):
        return one.meta
    return [_meta(item) for item in one] if isinstance(one, (list, tuple)) else one


def _operand(one: Any) -> Operand:
    if isinstance(one, Handle):
        return Ref(ref=one.name)
    if isinstance(one, torch.dtype):
        return DtypeArg(dtype=_NAMES[one])
    if isinstance(one, float) and one in (float("inf"), float("-inf")):
        return Other(other="inf" if one > 0 else "-inf")
    return tuple(map(_operand, one)) if isinstance(one, (list, tuple)) else one
