"""Drawn graphs that are made like parts of modules."""

import random

from kernelwright.data.variety import vary_sizes
from kernelwright.graph.types import Graph
from kernelwright.synth.building import GraphBuilder


def layer() -> Graph:
    b = GraphBuilder("layer")
    x, w = b.input("x", "float32", (8, 64)), b.input("w", "float32", (512, 64), role="weight")
    return b.graph(b.op("aten.gelu.default", b.op("aten.linear.default", x, w)))


def test_what_is_computed_stays_and_each_change_is_made() -> None:
    graph, seen = layer(), set()
    for seed in range(60):
        made, kept = vary_sizes(graph, {("w", 1)}, random.Random(seed))
        assert made.nodes == graph.nodes
        assert made.results in (("gelu",), ("linear", "gelu"))
        assert [one.type for one in made.arguments] == [one.type for one in graph.arguments]
        assert ("w", 1) in kept
        assert ("w", 0) not in kept  # too large for a task's small sizes
        seen |= {
            *(["weight as input"] if made.arguments[1].role == "input" else []),
            *(["input as weight"] if made.arguments[0].role == "weight" else []),
            *(["two results"] if len(made.results) == 2 else []),
            *(["a size stays"] if len(kept) > 1 else []),
        }
    assert seen == {"weight as input", "input as weight", "two results", "a size stays"}
