"""Changes drawn graphs to resemble parts of modules: computed weights, intermediate results, fixed sizes.

A part of a module gets the previous part's results as inputs, even as a convolution's weight; it returns values that are
read again later, and some of its sizes are fixed. Random graphs, drawn as whole functions, have none of that. Harvested
graphs do, but are few: we make more by replacing their operators, and by continuing one with another.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

from kernelwright.graph import sizes
from kernelwright.graph.operators import kind
from kernelwright.graph.partition import rename_node, subgraph
from kernelwright.graph.simplify import live_nodes
from kernelwright.graph.types import Graph, Node, NumberType, Ref, TensorType, Value

_LARGEST = 256
"""Largest size that may stay fixed, since a task's small sizes include it."""
_MAPS = [
    "relu", "gelu", "silu", "tanh", "sigmoid", "hardswish", "hardsigmoid", "selu", "mish",
    "relu6", "abs", "neg", "sin", "cos", "erf", "atan", "square",
]  # fmt: skip
"""Interchangeable functions of one tensor, without numeric arguments; finite for all inputs and not steep."""
_JOINS = ["add", "sub", "mul", "maximum", "minimum"]
"""Functions of two tensors."""
_SHAPED = ("view", "reshape", "expand", "_unsafe_view")
"""Operators whose second argument is a shape."""
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


def join_graphs(first: Graph, second: Graph, rng: random.Random) -> Graph | None:
    """The second graph applied to a value of the first, at sizes at which they agree, without symbols. None if no value and argument
    have the same dtype, rank and fixed sizes.

    Sequences of operators that occur in modules are far more than a hundred models have, and a small model writes a kernel for
    one that it has not seen in its training at an eighth of the rate.
    """
    types, given = first.types(), [one for one in second.arguments if one.role == "input"]
    values = (one.name for node in first.nodes for one in node.outputs if one is not None)
    tries = [(name, one) for name in dict.fromkeys((*first.results, *values)) for one in given]
    rng.shuffle(tries)
    for name, argument in sorted(tries, key=lambda one: one[0] not in first.results):
        agreed = _agree(types[name], argument.type, {one.name: one.hint for one in first.symbols})
        if agreed is not None:
            before, after = agreed
            return _joined(sizes.static(first, before), sizes.static(second, after), name, argument.name, rng)
    return None


def _agree(
    known: TensorType | NumberType, wanted: TensorType | NumberType, hints: Mapping[str, int]
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Values of the symbols of a value's and of an argument's type at which the types are equal; None if there are none."""
    if not isinstance(known, TensorType) or not isinstance(wanted, TensorType) or wanted.strides is not None:
        return None
    if known.dtype != wanted.dtype or len(known.shape) != len(wanted.shape):
        return None
    before: dict[str, int] = {}
    after: dict[str, int] = {}
    for size, dim in zip(known.shape, wanted.shape, strict=True):
        if isinstance(size, str) and size.isidentifier() and isinstance(dim, int) and dim > 1:
            number = before.setdefault(size, dim)
        else:
            number = sizes.evaluate(size, {**hints, **before})
        other = after.setdefault(dim, number) if isinstance(dim, str) and dim.isidentifier() else dim
        if number != other or (number == 1) != (dim == 1):
            return None
    return before, after


def _joined(first: Graph, second: Graph, value: str, argument: str, rng: random.Random) -> Graph:
    own = [one.name for one in second.arguments]
    own += [one.name for node in second.nodes for one in node.outputs if one is not None]
    names = {name: f"after_{name}" for name in own} | {argument: value}
    arguments = [one.model_copy(update={"name": names[one.name]}) for one in second.arguments]
    nodes = [*first.nodes, *(rename_node(node, names, names.keys()) for node in second.nodes)]
    results = [names[one] for one in second.results]
    if rng.random() < 0.2 and value not in results:
        results.insert(0, value)
    whole = first.model_copy(
        update={
            "arguments": (*first.arguments, *(one for one in arguments if one.name != value)),
            "nodes": tuple(nodes),
        }
    )
    live, read = live_nodes(nodes, results)
    inputs = [one.name for one in whole.arguments if one.name in read]
    return subgraph(whole, live, inputs, results)


def add_batch(graph: Graph, size: int) -> Graph:
    """A graph without symbols whose inputs all begin with a dimension of 1, such as one image, with `size` in place of 1. To be checked:
    a 1 in a shape's first place that is not the batch makes its types wrong. Otherwise the graph itself."""
    inputs = [one for one in graph.arguments if one.role == "input" and isinstance(one.type, TensorType)]
    batched = {one.name for one in inputs if isinstance(one.type, TensorType) and one.type.shape[:1] == (1,)}
    if not inputs or len(batched) < len(inputs):
        return graph

    def typed(one: Any) -> Any:
        kind_of = one.type if one is not None and one.name in batched else None
        if not isinstance(kind_of, TensorType):
            return one
        changed = {"shape": (size, *kind_of.shape[1:]), "strides": None}
        return one.model_copy(update={"type": kind_of.model_copy(update=changed)})

    nodes = []
    for node in graph.nodes:
        args = node.args
        if any(name in batched for name in node.refs()):
            batched |= {
                one.name for one in node.outputs if one and getattr(one.type, "shape", ())[:1] == (1,)
            }
            if node.op.split(".")[1] in _SHAPED and isinstance(args[1], tuple) and args[1][:1] == (1,):
                args = (args[0], (size, *args[1][1:]), *args[2:])
        nodes.append(node.model_copy(update={"args": args, "outputs": tuple(map(typed, node.outputs))}))
    return graph.model_copy(update={"arguments": tuple(map(typed, graph.arguments)), "nodes": tuple(nodes)})


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
