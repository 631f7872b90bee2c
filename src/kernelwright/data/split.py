"""From accepted examples to one corpus: duplicates out, and nothing held out left in training.

Splits go by operator graph. What training and validation must not share with the held-out examples: the graph by
its digest, the function by its `fingerprint`, and the combination of full sizes. What is dropped is counted by reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kernelwright import shapes
from kernelwright.data import normal
from kernelwright.data.corpus import identity
from kernelwright.data.fingerprint import fingerprint
from kernelwright.records import Example, Task


class Guard:
    """What training must not share with the held-out examples."""

    def __init__(self, heldout: Iterable[Example]) -> None:
        heldout = list(heldout)
        self._prints: dict[str, str] = {}
        self._graphs = {example.graph for example in heldout}
        self._sizes = {full_sizes(example.task) for example in heldout}
        self._functions = {self._print(example.task) for example in heldout} - {""}

    def leak(self, task: Task, graph: str) -> str:
        """What a task on an operator graph shares; empty where there is nothing."""
        if graph in self._graphs:
            return "held-out graph"
        if full_sizes(task) in self._sizes:
            return "held-out sizes"
        return "held-out function" if self._print(task) in self._functions else ""

    def _print(self, task: Task) -> str:
        source = normal.normal_form(task.source)
        if source not in self._prints:
            self._prints[source] = fingerprint(task)
        return self._prints[source]


def split(examples: Iterable[Example]) -> tuple[list[Example], Counter[str]]:
    """The examples to keep, in their order, and how many were dropped why."""
    examples = list(examples)
    guard = Guard(e for e in examples if e.split == "heldout")
    validation = {e.graph for e in examples if e.split == "validation"}
    seen: set[str] = set()
    dropped: Counter[str] = Counter()
    kept: list[Example] = []
    for example in examples:
        key = identity(example)
        reason = ""
        if key in seen:
            reason = "duplicate"
        elif example.split == "train" and example.graph in validation:
            reason = "validation graph"
        elif example.split != "heldout":
            reason = guard.leak(example.task, example.graph)
        seen.add(key)
        if reason:
            dropped[reason] += 1
        else:
            kept.append(example)
    return kept, dropped


def full_sizes(task: Task) -> tuple[int, ...]:
    """The sizes that a task has as it stands, in order of appearance."""
    return tuple(shapes.constants(task.source).values())
