"""Renames a drawn graph's values in the styles of other graph writers, so that a model copies names instead of memorising them.

drawn       x, y, clamp, mul_1         by operator
captured    x1, w1, b1, h1, h2         as for whole modules (`graph/capture.py`)
groups      x0, w1, v0, v1             as for parts of modules (`graph/partition.py`)
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from kernelwright.graph.partition import by_place, rename_node
from kernelwright.graph.simplify import renumber
from kernelwright.graph.types import Graph, TensorType

NameStyle = Literal["drawn", "captured", "groups"]
SHARES: dict[NameStyle, float] = {"drawn": 0.25, "captured": 0.25, "groups": 0.5}


def rename_values(
    graph: Graph, rng: random.Random, styles: Sequence[str] = ()
) -> tuple[Graph, dict[str, str]]:
    """The graph renamed in a randomly drawn style (of `styles`, if given), and the mapping from old to new names."""
    shares = {style: share for style, share in SHARES.items() if not styles or style in styles}
    style = rng.choices(list(shares), list(shares.values()))[0]
    if style == "groups":
        made = by_place(graph)
    else:
        made = graph if style == "drawn" else renumber(_capture(graph))
    new = {a.name: b.name for a, b in zip(graph.arguments, made.arguments, strict=True)}
    for before, after in zip(graph.nodes, made.nodes, strict=True):
        for a, b in zip(before.outputs, after.outputs, strict=True):
            if a is not None and b is not None:
                new[a.name] = b.name
    return made, new


def _capture(graph: Graph) -> Graph:
    """Rename arguments to x1, x2 ..., weights to w1, w2 ..., and a vector that follows w1 to b1."""
    counts: Counter[str] = Counter()
    new: dict[str, str] = {}
    for one in graph.arguments:
        vector = isinstance(one.type, TensorType) and len(one.type.shape) == 1
        stem = "x" if one.role == "input" else "b" if vector and counts["w"] > counts["b"] else "w"
        counts[stem] = counts["w"] if stem == "b" else counts[stem] + 1
        new[one.name] = f"{stem}{counts[stem]}"
    # In two steps, so that no new name equals an old one that is still in use.
    away = {name: f"_{name}" for name in graph.types() if name not in new}
    names = {**away, **new}
    nodes = tuple(rename_node(node, names, names.keys()) for node in graph.nodes)
    arguments = tuple(one.model_copy(update={"name": new[one.name]}) for one in graph.arguments)
    results = tuple(names[one] for one in graph.results)
    return graph.model_copy(update={"arguments": arguments, "nodes": nodes, "results": results})
