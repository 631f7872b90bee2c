"""Random graphs and rows of the catalogue: many operators, correct types at small sizes, kernels that print and agree."""

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from running_programs import agrees

from kernelwright.graph.operators import packet
from kernelwright.graph.shrink import with_symbols
from kernelwright.graph.types import Graph, TensorType
from kernelwright.synth.building import GraphBuilder, Handle
from kernelwright.synth.catalogue import ROWS
from kernelwright.synth.drawing import Value, Within, interval
from kernelwright.synth.extents import NotDrawn, holds, small_sets
from kernelwright.synth.library import program_of
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.random_graphs import FORMS, random_graph


def drawn(number: int, form: Any = None) -> Graph | None:
    """The graph of that number, if there is one."""
    rng = random.Random(number)
    try:
        made = random_graph(rng, rng.choice(("bfloat16", "float32")), form)
        graph = with_symbols(made.graph, made.kept)
        small_sets(graph, rng)
    except (NotDrawn, Unsupported):
        return None
    return graph if program_of(graph) is not None else None


@pytest.fixture(scope="module")
def graphs() -> list[Graph]:
    return [graph for number in range(260) if (graph := drawn(number)) is not None]


def operators_of(graphs: list[Graph]) -> Counter[str]:
    return Counter(packet(node.op) for graph in graphs for node in graph.nodes)


def test_most_numbers_make_a_graph_that_the_library_answers(graphs: list[Graph]) -> None:
    assert len(graphs) > 0.7 * 260


def test_a_few_hundred_draws_hold_over_a_hundred_operators(graphs: list[Graph]) -> None:
    assert len(operators_of(graphs)) > 120


def test_two_hundred_operators_together_with_the_catalogue(graphs: list[Graph]) -> None:
    rng = random.Random(0)
    rows = [row.drawn("float32", rng).graph for row in ROWS]
    assert len(operators_of([*graphs, *rows])) >= 200


def test_a_small_world_has_no_other_operators_ranks_and_reductions() -> None:
    within = Within(operators=("relu", "exp", "add", "sum", "amax"), ranks=(2,), reduced=(0,))
    made = []
    for number in range(40):
        with suppress(NotDrawn):
            made.append(random_graph(random.Random(number), "float32", "row", within).graph)
    assert len(made) > 30
    assert set(operators_of(made)) == set(within.operators)
    reductions = [node for graph in made for node in graph.nodes if packet(node.op) in ("sum", "amax")]
    assert all(node.args[1] == (0,) for node in reductions)


def test_a_number_is_one_graph() -> None:
    assert drawn(11) == drawn(11)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_drawn(form: str) -> None:
    assert any(drawn(number, form) is not None for number in range(8))


def test_types_hold_at_small_sizes(graphs: list[Graph]) -> None:
    rng = random.Random(1)
    for graph in graphs[:60]:
        assert all(holds(graph, sizes) for sizes in small_sets(graph, rng).values())


def test_a_size_that_the_expressions_do_not_cover_is_noticed() -> None:
    builder = GraphBuilder()
    x = builder.input("x", "float32", (16, 32))
    graph = with_symbols(builder.graph(builder.call("slice", x, 1, 0, 4)))
    assert holds(graph, {"s0": 3, "s1": 9})
    assert not holds(graph, {"s0": 3, "s1": 3})


@pytest.mark.slow
def test_every_row_of_the_catalogue_has_a_kernel() -> None:
    rng = random.Random(5)
    missing = []
    for row in ROWS:
        made = row.drawn("bfloat16", rng)
        graph = with_symbols(made.graph, made.kept)
        small_sets(graph, rng)
        if program_of(graph) is None:
            missing.append(row.name)
    assert missing == []


def test_names_of_rows_are_their_own() -> None:
    assert [name for name, count in Counter(row.name for row in ROWS).items() if count > 1] == []


class TestIntervals:
    """Elementwise operators on intervals."""

    def value(self, low: float, high: float, exact: bool = False) -> Any:

        return Value(Handle("x", torch.empty(4, device="meta")), low, high, exact)

    def test_not_finite_is_refused(self) -> None:
        assert interval("log", [self.value(-1, 1)], {}) is None

    def test_ends_are_found(self) -> None:
        found = interval("square", [self.value(-2, 2)], {})
        assert found is not None
        assert found[:2] == (0.0, 4.0)

    def test_steps_are_steep(self) -> None:
        found = interval("floor", [self.value(-2, 2)], {})
        assert found is not None
        assert found[2]


@pytest.mark.parametrize(
    "what", ["roll", "reflect", "pixel shuffle", "repeat", "upsample", "rotary pairs", "cosine similarity"]
)
def test_new_moves_and_statistics_agree_with_fp64(what: str, tmp_path: Path) -> None:
    from kernelwright.graph import sizes

    row = next(row for row in ROWS if row.name == what)
    rng = random.Random(2)
    made = row.drawn("float32", rng)
    graph = with_symbols(made.graph, made.kept)
    small = sizes.static(graph, small_sets(graph, rng)["small"])
    program = program_of(small)
    assert program is not None
    assert agrees(small, program.schedule, tmp_path) == ""


def test_a_mask_of_attention_has_the_sizes_of_queries_and_keys() -> None:
    b = GraphBuilder("masked")
    q, k, v = (b.input(name, "float32", (2, 4, 24, 32)) for name in "qkv")
    m = b.input("m", "float32", (24, 24))
    graph = with_symbols(b.graph(b.op("aten.scaled_dot_product_attention.default", q, k, v, m)))
    shapes = {one.name: one.type.shape for one in graph.arguments if isinstance(one.type, TensorType)}
    assert shapes["m"] == (shapes["q"][2], shapes["k"][2])


def test_nothing_is_drawn_that_no_result_is_made_from() -> None:
    for number in range(200):
        try:
            graph = random_graph(random.Random(f"needed/{number}"), "float32").graph
        except NotDrawn:
            continue
        read = {name for node in graph.nodes for name in node.refs()} | set(graph.results)
        assert all(one.name in read for one in graph.arguments)
        assert all(any(one is not None and one.name in read for one in node.outputs) for node in graph.nodes)
