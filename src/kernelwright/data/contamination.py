"""Keeps benchmarks out of the training data: removes pairs that compute a benchmark file's function, in any size or spelling.

References are captured as graphs, on fake tensors in a child process, and compared by `graph.structure`: a pair whose
graph has a file's structure is removed. Single operators are expected to recur (a softmax is a softmax): they stay, and
the card lists them. References are files that define a `Model`, calls in the tests of TritonBench-T, and JSONL files of
tasks.

A file that cannot be captured is not compared; the card lists those.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from kernelwright.children import run_forked
from kernelwright.errors import UserError
from kernelwright.graph.capture import capture
from kernelwright.graph.structure import operator_count, structure
from kernelwright.graph.types import Graph
from kernelwright.records import Pair, Task, read_jsonl
from kernelwright.tasks import tritonbench
from kernelwright.tasks.reference import Reference

SECONDS = 60.0
"""Most seconds per file."""
MEMORY = 16 * 2**30


_WARM_UP = Task(
    id="warm/up",
    source="""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs(): return [torch.rand(4)]
def get_init_inputs(): return []
""",
)


@dataclasses.dataclass
class Benchmarks:
    """Structures of all references in some folders, each with its file."""

    files: dict[str, str] = dataclasses.field(default_factory=dict)
    singles: dict[str, str] = dataclasses.field(default_factory=dict)
    """The same for references of a single operator."""
    uncaptured: list[str] = dataclasses.field(default_factory=list)
    recurring: Counter[str] = dataclasses.field(default_factory=Counter)
    """Pairs that are a single operator of a benchmark, by label."""
    removed: list[dict[str, str]] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, places: Iterable[Path]) -> Benchmarks:
        """Read folders of Python files and JSONL files of tasks. Raises UserError for a place without any."""
        found = cls()
        _structure_of(_WARM_UP)  # lets torch set itself up once here, not in every child
        for place in places:
            for task in tasks_of(place):
                found.add(task)
        return found

    def add(self, task: Task) -> None:
        """Capture a reference and store its structure."""
        known = structure_of(task)
        if known is None:
            self.uncaptured.append(task.id)
        elif known[1] > 1:
            self.files.setdefault(known[0], task.id)
        else:
            self.singles.setdefault(known[0], task.id)

    def leak(self, pair: Pair) -> bool:
        """Whether a pair computes a benchmark file's function; counted and listed."""
        if pair.structure in self.singles:
            self.recurring[pair.label] += 1
        where = self.files.get(pair.structure)
        if where is not None:
            self.removed.append({"task": pair.task.id, "label": pair.label, "file": where})
        return where is not None

    def describe(self) -> dict[str, object]:
        """The figures of the card."""
        return {
            "structures": len(self.files),
            "single operators": len(self.singles),
            "uncaptured": self.uncaptured,
            "pairs removed": len(self.removed),
            "files that pairs were removed for": sorted({one["file"] for one in self.removed}),
            "recurring single operators": dict(self.recurring.most_common()),
        }


def structure_of(task: Task) -> tuple[str, int] | None:
    """(structure, number of operators) of an untrusted reference; None if it cannot be captured."""
    if task.graph:
        graph = Graph.model_validate_json(task.graph)
        return structure(graph), operator_count(graph)
    if "from_pretrained" in task.source:
        return None  # would download a model from a hub

    def run(out: BinaryIO) -> None:
        out.write(json.dumps(_structure_of(task)).encode())

    ended = run_forked(run, SECONDS, memory=MEMORY)
    if ended.status != 0 or not ended.data:
        return None
    found = json.loads(ended.data)
    return str(found[0]), int(found[1])


def _structure_of(task: Task) -> tuple[str, int]:
    """The same, in this process, on fake tensors."""
    reference = Reference(task.source)
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        module, inputs = reference.module().eval(), tuple(reference.inputs())
    graph = capture(module, inputs).graph
    return structure(graph), operator_count(graph)


def tasks_of(place: Path) -> Iterator[Task]:
    """The references in a folder of Python files or a JSONL file of tasks. Raises UserError if there are none."""
    if place.is_file():
        yield from read_jsonl(place, Task)
        return
    files = sorted(place.rglob("*.py")) if place.is_dir() else []
    if not files:
        raise UserError(f"{place} holds no Python file; name the folder of a benchmark's checkout")
    for path in files:
        where = f"{place.absolute().name}/{path.relative_to(place)}"
        try:
            text = path.read_text("utf-8")
            tree = ast.parse(text)
        except (OSError, UnicodeDecodeError, SyntaxError, ValueError, RecursionError):
            continue
        if any(isinstance(node, ast.ClassDef) and node.name == "Model" for node in tree.body):
            yield Task(id=where, source=text)
        else:
            with contextlib.suppress(UserError):
                yield from tritonbench.from_file(path)[0]
