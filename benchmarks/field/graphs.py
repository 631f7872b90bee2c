"""Modules as tasks that travel to a machine with a GPU, which has none of the packages.

A module is harvested at twice its source's batch, so that the batch is a size of its own; the graph's other sizes stay as captured, and
the batch grows up to `TIMES` times as long as all values together are at most `MOST` elements. Tasks draw their arguments, so no
weights travel.
"""

from __future__ import annotations

import math
import os
import re
import time
from typing import Any

import torch
from torch.utils import _pytree as pytree

from field.cause import cause
from kernelwright.errors import UserError
from kernelwright.graph import sizes
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import Group, partition
from kernelwright.graph.task import to_task
from kernelwright.graph.types import Graph, TensorType
from kernelwright.records import Task
from kernelwright.search.ladder import pose
from kernelwright.search.whole import Sizes, examples_of, shrunk, sizes_of
from kernelwright.synth.extents import holds

TIMES, MOST = int(os.environ.get("FIELD_TIMES", "64")), 2**31
"""How many times the harvested batch, at most; and most elements of all values of a module together."""
Row = dict[str, Any]
Case = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


def doubled(case: Case) -> Case:
    """The same model at twice the batch: 1 is no size that could vary."""

    def twice(leaf: Any) -> Any:
        return leaf.repeat_interleave(2, 0) if isinstance(leaf, torch.Tensor) and leaf.ndim else leaf

    return case[0], *pytree.tree_map(twice, case[1:])


def measure_graphs(case: Case) -> Row:
    """`whole`: the module's task; `groups`: a task and `count` of each distinct group, or why there is none; `times`: how much larger
    than harvested the batch is."""
    began = time.monotonic()
    try:
        part = capture(*case, breaks=False).part
        graph, shapes = shrunk(part.graph, part.arguments)
        times, full = enlarged(graph)
        whole = to_task(at_sizes(graph, full), "whole", suite="field", values=part.arguments, shapes=shapes)
        cut = partition(graph)
        examples = examples_of(cut, part.arguments)
        groups = [
            _group(same, examples[digest], sizes_of(graph, {**shapes, "full": full}, same[0]))
            for digest, same in cut.distinct().items()
        ]
    except Exception as error:  # any exception counts as failure
        row = {"ok": False, "cause": cause("graphs", error), "message": " ".join(str(error).split())[:400]}
    else:
        row = {"ok": True, "times": times, "whole": whole.model_dump(mode="json"), "groups": groups}
    return row | {"seconds": round(time.monotonic() - began, 1)}


def _group(same: list[Group], values: Any, shapes: Sizes) -> Row:
    full = shapes.pop("full", {})
    row: Row = {"count": len(same), "operators": same[0].operators}
    try:
        task = pose(at_sizes(same[0].graph, full), values, policy="partial", shapes=shapes)
    except UserError as error:
        return row | {"unposed": cause("task", error)}
    digest = same[0].graph.digest
    return row | {"task": task.model_copy(update={"id": f"field/{digest}"}).model_dump(mode="json")}


def at_sizes(graph: Graph, full: dict[str, int]) -> Graph:
    """The graph with other hints of its symbols."""
    symbols = (one.model_copy(update={"hint": full.get(one.name, one.hint)}) for one in graph.symbols)
    return graph.model_copy(update={"symbols": tuple(symbols)})


def enlarged(graph: Graph) -> tuple[int, dict[str, int]]:
    """(factor, value of each symbol): the batch as large as the limits and the graph's operators permit."""
    hints = {one.name: one.hint for one in graph.symbols}
    batch, times = batch_of(graph), TIMES
    while batch and times > 1:
        full = {**hints, batch: hints[batch] * times}
        if elements(sizes.static(graph, full)) <= MOST and holds(graph, full):
            return times, full
        times //= 2
    return 1, hints


def batch_of(graph: Graph) -> str:
    """The symbol of the first dimension of the largest input; empty if that is a number, or a size of weights, too."""
    inputs = [one.type for one in graph.arguments if one.role == "input" and isinstance(one.type, TensorType)]
    hints = {one.name: one.hint for one in graph.symbols}
    largest = max(
        inputs, key=lambda one: math.prod(sizes.evaluate(n, hints) for n in one.shape), default=None
    )
    first = re.search(r"[a-z]\w*", str(largest.shape[0])) if largest and largest.shape else None
    held = {
        name
        for one in graph.arguments
        if one.role != "input" and isinstance(one.type, TensorType)
        for size in one.type.shape
        for name in sizes.symbols_of(size)
    }
    return first[0] if first and first[0] not in held else ""


def elements(graph: Graph) -> int:
    """Of all values of a graph without symbols together."""
    return sum(
        math.prod(map(int, one.shape)) for one in graph.types().values() if isinstance(one, TensorType)
    )


def static_of(task: Task, symbols: dict[str, int] | None = None) -> Graph:
    """A task's graph at its full sizes, or at others."""
    graph = Graph.model_validate_json(task.graph)
    return sizes.static(graph, symbols or {one.name: one.hint for one in graph.symbols})
