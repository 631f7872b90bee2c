"""A graph in another floating-point type."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from kernelwright.graph import sizes
from kernelwright.graph.execute import DTYPE_NAMES, DTYPES, execute
from kernelwright.graph.types import Graph, TensorType


def recast(graph: Graph, dtype: str) -> Graph:
    """The graph with its float32 arguments in another dtype, and computed values in the dtypes that torch infers from them."""
    arguments = tuple(
        one.model_copy(update={"type": one.type.model_copy(update={"dtype": dtype})})
        if isinstance(one.type, TensorType) and one.type.dtype == "float32"
        else one
        for one in graph.arguments
    )
    changed = graph.model_copy(update={"arguments": arguments})
    types = dict(_infer(changed))
    nodes = []
    for node in changed.nodes:
        outputs = tuple(
            one.model_copy(update={"type": one.type.model_copy(update={"dtype": types[one.name]})})
            if one is not None and isinstance(one.type, TensorType)
            else one
            for one in node.outputs
        )
        nodes.append(node.model_copy(update={"outputs": outputs}))
    return changed.model_copy(update={"nodes": tuple(nodes)})


def _infer(graph: Graph) -> Iterator[tuple[str, str]]:
    """(value, dtype) of all computed tensors, inferred on meta tensors at the captured sizes."""
    hints = {one.name: one.hint for one in graph.symbols}
    static = sizes.static(graph, hints)
    names = [
        v.name
        for node in static.nodes
        for v in node.outputs
        if v is not None and isinstance(v.type, TensorType)
    ]
    values = {
        one.name: torch.empty(
            tuple(int(n) for n in one.type.shape), dtype=DTYPES[one.type.dtype], device="meta"
        )
        for one in static.arguments
        if isinstance(one.type, TensorType)
    }
    made = execute(static.model_copy(update={"results": tuple(names)}), values)
    for name, value in zip(names, made, strict=True):
        yield name, DTYPE_NAMES[value.dtype]
