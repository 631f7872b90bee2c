"""Drawn graphs that resemble parts of modules."""

import random

import torch

from kernelwright.data.variety import add_batch, join_graphs, vary_operators, vary_sizes
from kernelwright.graph.execute import execute
from kernelwright.graph.shrink import with_symbols
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


def norm(batch: int, width: int) -> Graph:
    b = GraphBuilder("norm")
    x, w = b.input("x", "float32", (batch, width)), b.input("w", "float32", (width,), role="weight")
    return with_symbols(b.graph(b.op("aten.layer_norm.default", x, (width,), w, None)))


def test_a_graph_is_continued_with_another_at_sizes_at_which_they_agree() -> None:
    made = join_graphs(layer(), norm(4, 100), random.Random(3))
    assert made is not None
    assert [node.op.split(".")[1] for node in made.nodes] == ["linear", "gelu", "layer_norm"]
    x, w, scale = torch.randn(8, 64), torch.randn(512, 64), torch.randn(512)
    expected = torch.layer_norm(torch.nn.functional.gelu(x @ w.T), (512,), scale)
    result = execute(made, dict(zip((one.name for one in made.arguments), (x, w, scale), strict=True)))[-1]
    torch.testing.assert_close(result, expected)


def test_graphs_of_other_ranks_and_types_do_not_continue_one_another() -> None:
    b = GraphBuilder("other")
    half = b.graph(b.op("aten.relu.default", b.input("x", "bfloat16", (8, 512))))
    b = GraphBuilder("other")
    three = b.graph(b.op("aten.relu.default", b.input("x", "float32", (8, 512, 2))))
    assert join_graphs(layer(), half, random.Random(0)) is None
    assert join_graphs(layer(), three, random.Random(0)) is None


def test_one_image_becomes_several() -> None:
    b = GraphBuilder("image")
    x, w = b.input("x", "float32", (1, 6, 4)), b.input("w", "float32", (1, 1, 4), role="weight")
    graph = b.graph(b.op("aten.reshape.default", b.op("aten.mul.Tensor", x, w), (1, 6, 2, 2)))
    made = add_batch(graph, 3)
    assert [one.type.shape for one in made.arguments if isinstance(one.type, TensorType)][:1] == [(3, 6, 4)]
    [result] = execute(made, {"x": torch.ones(3, 6, 4), "w": torch.ones(1, 1, 4)})
    assert result.shape == (3, 6, 2, 2)
    assert add_batch(layer(), 3) == layer()
