"""If several cuts of a region have kernels, the largest saving wins, coarse before fine, and no two calls wait for each other."""

import graphlib
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from graph.building import Builder, linear, values_of

from kernelwright.compile_backend.compiling import race_changes
from kernelwright.compile_backend.grouping import Option, best_of, with_operators
from kernelwright.compile_backend.operators import operator_for
from kernelwright.compile_backend.race import Race
from kernelwright.compile_backend.splice import Spliced
from kernelwright.graph.execute import execute
from kernelwright.graph.neighbours import cuts, distinct_groups, regions, rivals
from kernelwright.graph.partition import Group, subgraph
from kernelwright.graph.types import Graph

CODE = "def kernel(*values):\n    raise AssertionError('the CPU runs the graph')\n"


def option(group: Group, saves: float) -> Option:
    return Option(operator_for(group.graph, CODE), saves)


def gated() -> Graph:
    b = Builder()
    x = b.input(8, 16)
    gate = b.op("aten.silu.default", linear(b, x, 16, 32))
    return b.graph(b.op("aten.mul.Tensor", gate, linear(b, x, 16, 32)))


@pytest.mark.parametrize(
    ("saves", "taken"),
    [({"linear+silu+mul": 3.0, "linear+silu": 1.0, "linear+mul": 1.0}, ["linear+silu+mul"]),
     ({"linear+silu+mul": 1.0, "linear+silu": 1.0, "linear+mul": 1.0}, ["linear+silu", "linear+mul"]),
     ({"linear+silu+mul": 0.0, "linear+silu": 0.0, "linear+mul": 0.0}, ["linear+silu+mul"]),
     ({"linear+mul": 0.5}, ["linear+mul"])],
)  # fmt: skip
def test_the_cut_that_saves_most_is_taken(saves: Mapping[str, float], taken: list[str]) -> None:
    graph, found = gated(), cuts(gated())
    options = {
        one: option(one, saves[one.operators]) for one in distinct_groups(found) if one.operators in saves
    }
    chosen, new = best_of(graph, regions(found), options)
    assert [group.operators for group in chosen] == taken
    values = values_of(graph)
    for ours, exact in zip(execute(new, values), execute(graph, values), strict=True):
        torch.testing.assert_close(ours, exact)


def group_of(graph: Graph, numbers: list[int]) -> Group:
    """A group of these nodes."""
    nodes = [graph.nodes[number] for number in numbers]
    made = [value.name for node in nodes for value in node.outputs if value is not None]
    inputs = tuple(dict.fromkeys(name for node in nodes for name in node.refs() if name not in made))
    return Group(subgraph(graph, nodes, inputs, made), inputs, tuple(made), tuple(nodes))


def test_where_groups_of_several_cuts_wait_for_each_other_one_cut_is_kept() -> None:
    b = Builder()
    x = b.input(8)
    first = b.op("aten.relu.default", x)
    second = b.op("aten.exp.default", first)
    third = b.op("aten.add.Tensor", b.op("aten.neg.default", x), second)
    graph = b.graph(b.op("aten.mul.Tensor", third, first), second)
    waits, fine, inner = (group_of(graph, numbers) for numbers in ([0, 4], [1], [1, 2]))
    parts: Any = [{"joined": (waits,), "rows": ()}, {"joined": (fine,), "rows": (inner,)}]
    saves = {waits: 1.0, fine: 0.5, inner: 2.0}
    options = {one: option(one, saves[one]) for one in saves}
    with pytest.raises(graphlib.CycleError):
        with_operators(graph, {one: options[one] for one in (waits, inner)})
    chosen, new = best_of(graph, parts, options)
    assert list(chosen) == [inner]
    values = values_of(graph)
    for ours, exact in zip(execute(new, values), execute(graph, values), strict=True):
        torch.testing.assert_close(ours, exact)


def test_kernels_of_another_cut_have_their_turn_where_the_coarse_one_lost() -> None:
    """The coarse kernel loses, both fine ones win; rivals of a kept kernel are not tried."""
    between = rivals(cuts(gated()))
    groups = distinct_groups(cuts(gated()))
    digests = {group.operators: group.graph.digest for group in groups}
    coarse, *fine = (digests[name] for name in ("linear+silu+mul", "linear+silu", "linear+mul"))
    assert between[coarse] == set(fine)
    tried: list[frozenset[str] | None] = []

    class Change:
        def __init__(self, allowed: frozenset[str] | None) -> None:
            tried.append(allowed)
            names = {coarse} if allowed is None else allowed
            self.saves = {coarse: 3.0, fine[0]: 1.0, fine[1]: 0.5}
            taken = [(group, group.graph.digest) for group in groups if group.graph.digest in names]
            self.done = Spliced(replaced=taken, saves=3.0, rivals=between)

    class Compiling:
        def run(self, change: Any) -> Any:
            return type(
                "Compiled", (), {"call": {name for _, name in change.done.replaced}, "spliced": change.done}
            )

        def plain(self) -> Any:
            return type("Compiled", (), {"call": set()})

    def clock(ours: set[str], other: set[str], examples: Any) -> Race:
        return Race(2.0, 1.0) if coarse in ours else Race(1.0, 2.0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kernelwright.compile_backend.compiling.race", clock)
        best, _, _ = race_changes(Compiling(), Change, [torch.zeros(1)], 60.0)  # type: ignore[arg-type]
    assert best is not None
    assert best.call == set(fine)
    assert tried == [None, frozenset([fine[0]]), frozenset(fine)]
