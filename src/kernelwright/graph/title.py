"""A graph's name for people, instead of a digest: `linear+gelu 1024x8192x8192 bf16`.

Operators in order without repetitions; rows x columns x summed size of the first contraction, else the shape of the largest
input; the float type. Not an identity: different graphs may share a title.
"""

from __future__ import annotations

import functools
import math

from kernelwright.graph import operators, sizes
from kernelwright.graph.operators import packet
from kernelwright.graph.partition import describe
from kernelwright.graph.types import Graph, Node, Ref, TensorType
from kernelwright.records import Task

SHORT = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}
_MOST = 4
"""Most operators that are named; the rest are counted."""
_PRODUCTS = frozenset(["linear", "mm", "matmul", "addmm", "bmm", "baddbmm"])


def title(graph: Graph) -> str:
    """The title of a graph, at its captured sizes."""
    named = describe(graph.nodes).split("+")
    if len(named) > _MOST:
        named = [*named[:_MOST], f"{len(named) - _MOST} more"]
    shape = _product(graph) or _largest(graph)
    return " ".join(filter(None, ["+".join(named), "x".join(map(str, shape)), dtype(graph)]))


def task_title(task: Task) -> str:
    """The title of a task's graph; its id if it has no graph."""
    return _of_json(task.graph) if task.graph else task.id


@functools.lru_cache(4096)
def _of_json(text: str) -> str:
    return title(Graph.model_validate_json(text))


def dtype(graph: Graph) -> str:
    """The short name of the most frequent dtype of floating-point arguments; of all arguments if none is floating."""
    found = [one.type.dtype for one in graph.arguments if isinstance(one.type, TensorType)]
    floating = [name for name in found if name in SHORT] or found
    most = max(floating, key=floating.count, default="")
    return SHORT.get(most, most)


def _product(graph: Graph) -> list[int]:
    """Rows, columns and summed size of the first matrix product; batches multiply the rows."""
    types = graph.types()
    for node in graph.nodes:
        if operators.kind(node.op) == "contraction" and packet(node.op) in _PRODUCTS:
            made = node.outputs[0]
            read = types.get(_first(node))
            if made is not None and isinstance(made.type, TensorType) and isinstance(read, TensorType):
                *rows, columns = _shape(graph, made.type) or [1]
                return [math.prod(rows), columns, (_shape(graph, read) or [1])[-1]]
    return []


def _first(node: Node) -> str:
    """Name of the left factor."""
    place = 1 if packet(node.op) in ("addmm", "baddbmm") else 0
    one = node.args[place] if len(node.args) > place else None
    return one.ref if isinstance(one, Ref) else ""


def _largest(graph: Graph) -> list[int]:
    given = [_shape(graph, one.type) for one in graph.arguments if isinstance(one.type, TensorType)]
    return max(given, key=math.prod, default=[])


def _shape(graph: Graph, type: TensorType) -> list[int]:
    hints = {one.name: one.hint for one in graph.symbols}
    return [sizes.evaluate(size, hints) for size in type.shape]
