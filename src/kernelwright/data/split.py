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
from kernelwright.records import Example


def split(examples: Iterable[Example]) -> tuple[list[Example], Counter[str]]:
    """The examples to keep, in their order, and how many were dropped why."""
    examples = list(examples)
    heldout = [e for e in examples if e.split == "heldout"]
    guarded = {e.graph for e in heldout}
    prints = Prints()
    functions = {prints.of(e) for e in heldout} - {""}
    sizes = {full_sizes(e) for e in heldout}
    validation = {e.graph for e in examples if e.split == "validation"}
    seen: set[str] = set()
    dropped: Counter[str] = Counter()
    kept: list[Example] = []
    for example in examples:
        key = identity(example)
        reason = ""
        if key in seen:
            reason = "duplicate"
        elif example.split == "heldout":
            pass
        elif example.graph in guarded:
            reason = "held-out graph"
        elif full_sizes(example) in sizes:
            reason = "held-out sizes"
        elif prints.of(example) in functions:
            reason = "held-out function"
        elif example.split == "train" and example.graph in validation:
            reason = "validation graph"
        seen.add(key)
        if reason:
            dropped[reason] += 1
        else:
            kept.append(example)
    return kept, dropped


def full_sizes(example: Example) -> tuple[int, ...]:
    """The sizes that an example's task has as it stands, in order of appearance."""
    return tuple(shapes.constants(example.task.source).values())


class Prints:
    """Fingerprints of tasks, each distinct source traced once."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, example: Example) -> str:
        """The fingerprint of an example's task; empty where there is none."""
        source = normal.digest(normal.normal_form(example.task.source))
        if source not in self._known:
            self._known[source] = fingerprint(example.task)
        return self._known[source]
