"""Changes drawn graphs to resemble parts of modules: computed weights, intermediate results, fixed sizes.

A part of a module gets the previous part's results as inputs, even as a convolution's weight; it returns values that are
read again later, and some of its sizes are fixed. Random graphs, drawn as whole functions, have none of that. Harvested
graphs do, but are few: we make more by replacing their operators.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from kernelwright.graph.operators import kind
from kernelwright.graph.partition import subgraph
from kernelwright.graph.simplify import live_nodes
from kernelwright.graph.types import Graph, Node, Ref, TensorType, Value

_LARGEST = 256
"""Largest size that may stay fixed, since a task's small sizes include it."""
_MAPS = [
    "relu", "gelu", "silu", "tanh", "sigmoid", "hardswish", "hardsigmoid", "selu", "mish",
    "relu6", "abs", "neg", "sin", "cos", "erf", "atan", "square",
]  # fmt: skip
"""Interchangeable functions of one tensor, without numeric arguments; finite for all inputs and not steep."""
_JOINS = ["add", "sub", "mul", "maximum", "minimum"]
"""Functions of two tensors."""
_FLOATS = ("float32", "float16", "bfloat16")


def vary_sizes(
    graph: Graph, kept: Collection[tuple[str, int]], rng: random.Random
) -> tuple[Graph, set[tuple[str, int]]]:
    """The graph after one to three of the changes, as far as they apply, and its dimensions that must not become symbols."""
    kept = set(kept)
    changes = rng.sample(["roles", "results", "sizes"], rng.choices((1, 2, 3), (4, 2, 1))[0])
    if "roles" in changes:
        graph = _other_roles(graph, rng)
    if "results" in changes:
        graph = _one_more_result(graph, rng)
    if "sizes" in changes:
        kept |= _sizes_that_stay(graph, rng)
    return graph, kept


def _other_roles(graph: Graph, rng: random.Random) -> Graph:
    """Turn weights into inputs; sometimes, and without weights always, inputs into weights."""
    weights = any(one.role == "weight" for one in graph.arguments)
    role = "input" if weights and rng.random() < 0.8 else "weight"
    change = [rng.random() < 0.6 for _ in graph.arguments]
    if not any(change):
        change = [True] * len(change)
    arguments = tuple(
        one.model_copy(update={"role": role}) if yes and one.role in ("input", "weight") else one
        for one, yes in zip(graph.arguments, change, strict=True)
    )
    return graph.model_copy(update={"arguments": arguments})


def _one_more_result(graph: Graph, rng: random.Random) -> Graph:
    """Return an intermediate value as a further result."""
    found = [
        value.name
        for node in graph.nodes
        if kind(node.op) not in ("move", "create")
        for value in node.outputs
        if value is not None and isinstance(value.type, TensorType) and value.name not in graph.results
    ]
    if not found:
        return graph
    results = [*graph.results, rng.choice(found)]
    order = {v.name: at for at, v in enumerate(v for n in graph.nodes for v in n.outputs if v is not None)}
    return graph.model_copy(update={"results": tuple(sorted(results, key=lambda name: order.get(name, -1)))})


def _sizes_that_stay(graph: Graph, rng: random.Random) -> set[tuple[str, int]]:
    """Choose one or two dimensions of arguments to stay fixed."""
    found = [
        (one.name, dim)
        for one in graph.arguments
        if isinstance(one.type, TensorType)
        for dim, size in enumerate(one.type.shape)
        if isinstance(size, int) and 1 < size <= _LARGEST
    ]
    return set(rng.sample(found, min(len(found), rng.choice((1, 1, 2)))))


def vary_operators(graph: Graph, rng: random.Random) -> Graph:
    """A harvested graph, sometimes cut short, with some elementwise operators replaced and sometimes one more after its results.
    Views, products and norms stay as in the module."""
    if len(graph.nodes) > 1 and rng.random() < 0.3:
        graph = _beginning(graph, rng)
    nodes = [_other_operator(node, rng) if rng.random() < 0.5 else node for node in graph.nodes]
    results = []
    for number, name in enumerate(graph.results):
        kind_of = graph.types()[name]
        if rng.random() < 0.3 and isinstance(kind_of, TensorType) and kind_of.dtype in _FLOATS:
            value = Value(name=f"more{number}", type=kind_of.model_copy(update={"strides": None}))
            nodes.append(
                Node(op=f"aten.{rng.choice(_MAPS)}.default", args=(Ref(ref=name),), outputs=(value,))
            )
            name = value.name
        results.append(name)
    return graph.model_copy(update={"nodes": tuple(nodes), "results": tuple(results)})


def _beginning(graph: Graph, rng: random.Random) -> Graph:
    """The graph up to a random intermediate value, with only the nodes it needs."""
    made = [
        value.name
        for node in graph.nodes[:-1]
        for value in node.outputs
        if value is not None and isinstance(value.type, TensorType)
    ]
    if not made or not all(isinstance(one.type, TensorType) and not one.mutated for one in graph.arguments):
        return graph
    result = rng.choice(made)
    nodes, read = live_nodes(graph.nodes, [result])
    inputs = [one.name for one in graph.arguments if one.name in read]
    return subgraph(graph, nodes, inputs, [result], graph.name)


def _other_operator(node: Node, rng: random.Random) -> Node:
    """Replace an elementwise float operator by another with as many tensors; other nodes are returned unchanged."""
    [value, *more] = node.outputs
    if more or value is None or not isinstance(value.type, TensorType) or value.type.dtype not in _FLOATS:
        return node
    name = node.op.split(".")[1]
    tensors = [one for one in node.args if isinstance(one, Ref)]
    if name in _MAPS and len(tensors) == 1:
        op = f"aten.{rng.choice(_MAPS)}.default"
    elif name in _JOINS and len(tensors) == len(node.args) == 2:
        join = rng.choice(_JOINS)
        op = f"aten.{join}.{'Tensor' if join in _JOINS[:3] else 'default'}"
    else:
        return node
    return node.model_copy(update={"op": op, "args": tuple(tensors), "kwargs": ()})
