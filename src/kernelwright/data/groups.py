"""Tasks of modules as tasks of their groups: what `data harvest` found, cut into graphs that a kernel is written for.

    harvest.jsonl -> capture -> groups -> symbols and small sizes -> one task in function form a group that has a nest

Groups that compute what an earlier one computes at the same sizes are left out. Modules are executed, forked and within
limits: for harvested packages, whose code was read before, not for strangers'.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import torch

from kernelwright.children import forked
from kernelwright.data.streams import Progress
from kernelwright.errors import UserError
from kernelwright.graph import operators, sizes
from kernelwright.graph.capture import capture
from kernelwright.graph.execute import DTYPE_NAMES, DTYPES, execute
from kernelwright.graph.partition import partition
from kernelwright.graph.task import to_task
from kernelwright.graph.types import Graph, TensorType
from kernelwright.records import Record, Task
from kernelwright.runs import write_text
from kernelwright.synth.extents import NotDrawn, small_sets
from kernelwright.synth.library import program_of
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.symbols import with_symbols
from kernelwright.tasks.reference import Reference

SECONDS = 60.0
"""For one module."""
MEMORY = 8 * 2**30


class GroupTasks(Record):
    """What came of one module."""

    tasks: tuple[Task, ...] = ()
    left: tuple[str, ...] = ()
    """Why groups gave none."""


def groups_of(suite: Sequence[Task], out: Path, progress: Progress | None = None) -> Counter[str]:
    """Write the tasks of all groups, each graph once. Returns how many ended how."""
    ended: Counter[str] = Counter()
    seen: set[str] = set()
    lines = []
    for number, task in enumerate(suite, 1):
        made = _forked(task)
        if made is None:
            ended["module not captured"] += 1
        for reason in made.left if made else ():
            ended[f"left: {reason}"] += 1
        for one in made.tasks if made else ():
            digest = Graph.model_validate_json(one.graph).digest
            ended["known already" if digest in seen else "tasks"] += 1
            if digest not in seen:
                lines.append(one.model_dump_json() + "\n")
            seen.add(digest)
        if progress is not None:
            progress("groups", number, len(suite))
    write_text(out, "".join(lines))
    return ended


def _forked(task: Task) -> GroupTasks | None:
    def run(into: BinaryIO) -> None:
        into.write(tasks_of(task).model_dump_json().encode())

    ended = forked(run, SECONDS, memory=MEMORY)
    try:
        return GroupTasks.model_validate(json.loads(ended.data)) if ended.status == 0 else None
    except ValueError:
        return None


def tasks_of(task: Task) -> GroupTasks:
    """The tasks of a module's groups. Raises what its capture raises."""
    reference = Reference(task.source)
    torch.manual_seed(0)
    with torch.no_grad():
        whole = capture(reference.module().eval(), tuple(reference.inputs())).graph
    made, left = [], []
    for number, group in enumerate(partition(whole).groups):
        try:
            made.append(_task(group.graph, f"{task.id}/{number}", random.Random(group.graph.digest)))
        except (NotDrawn, Unsupported, UserError) as error:
            left.append(str(error)[:80])
    return GroupTasks(tasks=tuple(made), left=tuple(left))


def _task(graph: Graph, id: str, rng: random.Random) -> Task:
    if not any(operators.kind(node.op) not in ("view", "create") for node in graph.nodes):
        raise NotDrawn("views alone")
    graph = with_symbols(graph)
    if program_of(graph) is None:
        raise NotDrawn("no nest")
    return to_task(graph, id, suite="harvest", shapes=small_sets(graph, rng), family="harvest")


def recast(graph: Graph, dtype: str) -> Graph:
    """The graph with its float32 arguments in another type, and what follows from them as torch infers it."""
    arguments = tuple(
        one.model_copy(update={"type": one.type.model_copy(update={"dtype": dtype})})
        if isinstance(one.type, TensorType) and one.type.dtype == "float32"
        else one
        for one in graph.arguments
    )
    changed = graph.model_copy(update={"arguments": arguments})
    types = dict(_inferred(changed))
    nodes = []
    for node in changed.nodes:
        outputs = tuple(
            one.model_copy(update={"type": one.type.model_copy(update={"dtype": types[one.name]})})
            if one is not None and isinstance(one.type, TensorType)
            else one
            for one in node.outputs
        )
        nodes.append(node.model_copy(update={"outputs": outputs}))
    return changed.model_copy(update={"nodes": tuple(nodes)})


def _inferred(graph: Graph) -> Iterator[tuple[str, str]]:
    """(value, dtype) of all tensors that nodes make, on tensors without data at the captured sizes."""
    hints = {one.name: one.hint for one in graph.symbols}
    static = sizes.static(graph, hints)
    names = [
        v.name
        for node in static.nodes
        for v in node.outputs
        if v is not None and isinstance(v.type, TensorType)
    ]
    values = {
        one.name: torch.empty(
            tuple(int(n) for n in one.type.shape), dtype=DTYPES[one.type.dtype], device="meta"
        )
        for one in static.arguments
        if isinstance(one.type, TensorType)
    }
    made = execute(static.model_copy(update={"results": tuple(names)}), values)
    for name, value in zip(names, made, strict=True):
        yield name, DTYPE_NAMES[value.dtype]
