"""Cuts that consider a group's neighbours: what they join and move, that each is a partition, and where they differ."""

import random

import pytest
import torch
from graph.building import Builder, attention_block, linear, rms_norm, values_of
from graph.test_partition import drawn, played

from kernelwright.graph.execute import execute
from kernelwright.graph.neighbours import CUTS, Cut, cuts, distinct_groups, regions
from kernelwright.graph.partition import Partition, part_of, partition
from kernelwright.graph.types import Graph


def operators(found: Partition) -> list[str]:
    return [group.operators for group in found.groups]


def agrees(graph: Graph) -> None:
    """Assert that every cut computes the graph, and that regions have every group of every cut once, each node in one region."""
    found, values = cuts(graph), values_of(graph)
    exact = execute(graph, values)
    for whole in found.values():
        for ours, one in zip(played(whole, values), exact, strict=True):
            torch.testing.assert_close(ours, one)
        assert set(whole.merged().nodes) <= set(graph.nodes)
    parts = regions(found)
    for name, whole in found.items():
        assert sorted(group.outputs for one in parts for group in one.get(name, ())) == sorted(
            group.outputs for group in whole.groups
        )
    homes = [
        {
            node
            for groups in one.values()
            for group in groups
            for node in group.nodes
            if part_of(node) != "free"
        }
        for one in parts
    ]
    assert sum(map(len, homes)) == len(set().union(*homes))


def test_gate_and_up_are_one_group_with_what_combines_them() -> None:
    b = Builder()
    x = b.input(8, 16)
    gate = b.op("aten.silu.default", linear(b, x, 16, 32))
    graph = b.graph(b.op("aten.mul.Tensor", gate, linear(b, x, 16, 32)))
    found = cuts(graph)
    assert operators(found["joined"]) == ["linear+silu+mul"]
    assert operators(found["rows"]) == ["linear+silu", "linear+mul"]
    assert list(found) == ["joined", "rows"]
    agrees(graph)


def test_products_of_equal_views_are_one_group_whatever_else_reads_the_value() -> None:
    """As in a block with attention and MLP in parallel: query, gate and up of one input."""
    b = Builder()
    x = b.input(2, 8, 16)
    query, gate, up = (
        b.op("aten.mm.default", b.op("aten.reshape.default", x, (16, 16)), b.weight(16, 32)) for _ in range(3)
    )
    graph = b.graph(query, b.op("aten.mul.Tensor", b.op("aten.silu.default", gate), up))
    assert operators(cuts(graph)["joined"]) == ["mm", "mm+silu+mul"]
    agrees(graph)


@pytest.mark.parametrize(
    "apart",
    [
        "another value",
        "another view",
        "a product of the other",
        "a product with the other",
        "a third group between",
        "results of their own",
    ],
)
def test_products_stay_apart(apart: str) -> None:
    b = Builder()
    x, w = b.input(8, 8), b.weight(8, 8)
    first = b.op("aten.mm.default", x, w)
    left, right = x, b.weight(8, 8)
    if apart == "another value":
        left = b.input(8, 8)
    elif apart == "another view":
        left = b.op("aten.t.default", x)
    elif apart == "a product of the other":
        left = first
    elif apart == "a product with the other":
        right = b.op("aten.t.default", first)
    elif apart == "a third group between":
        right = b.op("aten.softmax.int", first, -1)
    graph = b.graph(first, b.op("aten.mm.default", left, right))
    assert all(
        sum(part_of(node) == "contraction" for node in group.nodes) <= 1
        for group in distinct_groups(cuts(graph))
    )
    agrees(graph)


def test_at_most_four_products_are_one_group() -> None:
    b = Builder()
    x = b.input(8, 8)
    total = b.op("aten.mm.default", x, b.weight(8, 8))
    for _ in range(5):
        total = b.op("aten.add.Tensor", total, b.op("aten.mm.default", x, b.weight(8, 8)))
    graph = b.graph(total)
    joined = cuts(graph)["joined"].groups
    assert [sum(part_of(node) == "contraction" for node in group.nodes) for group in joined] == [4, 2]
    agrees(graph)


@pytest.mark.parametrize("norm", ["rms", "layer"])
def test_the_sum_of_a_residual_and_its_norm_are_one_group_of_two_results(norm: str) -> None:
    b = Builder()
    x = b.input(8, 16)
    total = b.op("aten.add.Tensor", x, linear(b, b.input(8, 16), 16, 16))
    if norm == "rms":
        normed = rms_norm(b, total, 16)
    else:
        normed = b.op("aten.native_layer_norm.default", total, (16,), b.weight(16), b.weight(16), 1e-5)[0]
    last = b.op("aten.add.Tensor", total, linear(b, normed, 16, 16))
    graph = b.graph(last)
    found = cuts(graph)
    assert operators(found["joined"])[0] == "linear+add"
    bare, row, after = found["rows"].groups
    assert (bare.operators, len(row.outputs), after.operators) == ("linear", 2, "linear+add")
    assert row.operators.startswith("add+")
    agrees(graph)


def test_a_map_that_waits_for_the_norm_otherwise_stays() -> None:
    """Nothing that a moved map reads may depend on the group that it would move to."""
    b = Builder()
    x = b.input(8, 16)
    made = linear(b, x, 16, 16)
    soft = b.op("aten.softmax.int", made, -1)
    other = linear(b, soft, 16, 16)
    total = b.op("aten.add.Tensor", made, other)
    graph = b.graph(b.op("aten.softmax.int", total, -1), total)
    agrees(graph)


def test_the_same_cut_is_there_once() -> None:
    b = Builder()
    graph = b.graph(b.op("aten.gelu.default", linear(b, b.input(8, 16), 16, 32)))
    assert list(cuts(graph)) == [CUTS[0]]
    assert cuts(graph)["joined"].steps == partition(graph).steps


@pytest.mark.parametrize("layers", [1, 2])
def test_every_cut_of_a_decoder_layer_is_the_layer(layers: int) -> None:
    b = Builder()
    x = b.input(2, 8, 32)
    for _ in range(layers):
        x = attention_block(b, x, 2, 8, 32, 4)
    graph = b.graph(x)
    found: dict[Cut, Partition] = cuts(graph)
    assert len(found["joined"].groups) < len(found["parts"].groups)
    agrees(graph)


@pytest.mark.parametrize("seed", range(25))
def test_every_cut_of_any_graph_is_the_graph(seed: int) -> None:
    agrees(drawn(random.Random(seed)))
