"""Drawn graphs that resemble parts of modules."""

import random

import torch

from kernelwright.data.variety import vary_operators, vary_sizes
from kernelwright.graph.execute import execute
from kernelwright.graph.types import Graph, TensorType
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


def test_other_operators_stand_where_some_stood_and_views_stay() -> None:
    b = GraphBuilder("gate")
    x, y = b.input("x", "float32", (8, 6)), b.input("y", "float32", (2, 8, 3))
    turned = b.op("aten.permute.default", b.op("aten.reshape.default", x, (8, 2, 3)), (1, 0, 2))
    graph = b.graph(b.op("aten.gelu.default", b.op("aten.add.Tensor", turned, y)))
    given, seen = {"x": torch.randn(8, 6), "y": torch.randn(2, 8, 3)}, set()
    for seed in range(60):
        made = vary_operators(graph, random.Random(seed))
        seen |= {node.op for node in made.nodes} | {
            f"of {len(made.arguments)}",
            f"of {len(made.nodes)} nodes",
        }
        [result] = execute(
            made, {one.name: given[one.name.replace("x0", "x").replace("x1", "y")] for one in made.arguments}
        )
        kind = made.types()[made.results[0]]
        assert isinstance(kind, TensorType)
        assert tuple(result.shape) == kind.shape
        assert made.nodes[0].op == graph.nodes[0].op
    assert {
        "of 1",
        "of 2",
        "of 1 nodes",
        "of 5 nodes",
        "aten.mul.Tensor",
        "aten.maximum.default",
        "aten.tanh.default",
    } <= seen
