"""Drawn graphs made more like parts of modules: weights that were computed, values that another part reads, sizes that stay.

A part of a module gets as an input what the part before it made, also where that is a convolution's weight; it returns values
that are read again later, and some of its sizes are numbers. Random graphs are drawn as whole functions and have none of
that. Does not change what is computed.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from kernelwright.graph.operators import kind
from kernelwright.graph.types import Graph, TensorType

_LARGEST = 256
"""Of the sizes that may stay as they are: a task's small sizes have them, too."""


def vary_sizes(
    graph: Graph, kept: Collection[tuple[str, int]], rng: random.Random
) -> tuple[Graph, set[tuple[str, int]]]:
    """The graph, and its dimensions that stay as they are, after one to three of the changes, those that apply."""
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
    """Weights handed over as inputs; now and then, and where there are none, inputs that are weights."""
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
    """A value on the way is a result, too."""
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
    """One or two dimensions of arguments."""
    found = [
        (one.name, dim)
        for one in graph.arguments
        if isinstance(one.type, TensorType)
        for dim, size in enumerate(one.type.shape)
        if isinstance(size, int) and 1 < size <= _LARGEST
    ]
    return set(rng.sample(found, min(len(found), rng.choice((1, 1, 2)))))
