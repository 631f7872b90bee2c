"""Chooses which groups of a graph become operators, if several cuts have kernels, and rewrites the graph with them.

The cut whose kernels save most on their own may not be the fastest in the whole graph: that is timed in `compiling.py`.
"""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch

from kernelwright.graph import Graph, Node, Ref
from kernelwright.graph.neighbours import Cut
from kernelwright.graph.partition import Group
from kernelwright.graph.types import NumberType, TensorType


@dataclass(frozen=True)
class Option:
    """A kernel for a group, as an operator."""

    operator: torch._ops.OpOverload
    saves: float = 0.0
    """Milliseconds that it saves over Inductor's code, on its own."""


Choose = Callable[[Group], Option | None]


def best_of(
    graph: Graph, parts: Sequence[Mapping[Cut, tuple[Group, ...]]], options: Mapping[Group, Option]
) -> tuple[dict[Group, Option], Graph]:
    """The groups to replace, and the graph with calls in their place: in each region the cut that saves most, the coarsest of equals;
    a single cut throughout if groups of different cuts would depend on each other in a cycle."""

    best: dict[Group, Option] = {}
    for part in parts:
        best.update(_worthiest(options, part.values()))
    try:
        return best, with_operators(graph, best)
    except graphlib.CycleError:
        names = dict.fromkeys(name for part in parts for name in part)
        whole = ([group for part in parts for group in part.get(name, ())] for name in names)
        best = _worthiest(options, whole)
        return best, with_operators(graph, best)


def _worthiest(options: Mapping[Group, Option], cuts: Iterable[Sequence[Group]]) -> dict[Group, Option]:
    """Of several ways to group the same nodes, the one whose options save most; of equals the first that has any."""
    best: dict[Group, Option] = {}
    for cut in cuts:
        made = {group: options[group] for group in cut if group in options}
        if made and (not best or _time_saved(made) > _time_saved(best)):
            best = made
    return best


def _time_saved(made: Mapping[Group, Option]) -> float:
    return sum(option.saves for option in made.values())


def with_operators(graph: Graph, chosen: Mapping[Group, Option]) -> Graph:
    """The graph with one call in place of the nodes of each chosen group, otherwise in the original order as far as possible.
    Raises CycleError if groups depend on each other."""
    types = graph.types()
    maker = {value.name: node for node in graph.nodes for value in node.outputs if value is not None}
    place = {node: number for number, node in enumerate(graph.nodes)}
    for group, option in chosen.items():
        call = _call(group, option.operator, types)
        place[call] = max(place[node] for node in group.nodes)
        maker |= dict.fromkeys(group.outputs, call)
    reads: dict[Node, list[Node]] = {}
    waiting = [maker[name] for name in graph.results if name in maker]
    while waiting:
        node = waiting.pop()
        if node not in reads:
            reads[node] = [maker[name] for name in node.refs() if name in maker]
            waiting += reads[node]
    sorter, nodes = graphlib.TopologicalSorter(reads), list[Node]()
    sorter.prepare()
    ready: list[tuple[int, Node]] = []
    while sorter.is_active():
        ready = sorted(
            [*ready, *((place[node], node) for node in sorter.get_ready())], key=lambda one: one[0]
        )
        nodes.append(ready.pop(0)[1])
        sorter.done(nodes[-1])
    return graph.model_copy(update={"nodes": tuple(nodes)})


def _call(
    group: Group, operator: torch._ops.OpOverload, types: Mapping[str, TensorType | NumberType]
) -> Node:
    outputs = tuple({"name": name, "type": types[name]} for name in group.outputs)
    name = f"{operator.namespace}.{operator._schema.name.split('::')[1]}.{operator._overloadname}"
    args = tuple(Ref(ref=one) for one in group.inputs)
    return Node.model_validate({"op": name, "args": args, "outputs": outputs})
