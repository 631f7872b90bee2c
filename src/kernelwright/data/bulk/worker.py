"""One core's share of a corpus: `python -m kernelwright.data.bulk.worker CONFIG PARTS` makes the chunks it is asked for.

Started by `work.py`. Holds a judge of its own, and an Inductor of its own once a chunk wants one.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kernelwright import tasks
from kernelwright.children import serve
from kernelwright.data.bulk.config import BulkConfig, Teacher
from kernelwright.data.bulk.hear import Entry, Practice, ask, decide, practice
from kernelwright.data.bulk.problems import Problem, Skipped, problem
from kernelwright.data.bulk.values import varies
from kernelwright.data.bulk.work import Chunk
from kernelwright.data.validate import Rejected
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.policy.compiler import Answer, Compiler
from kernelwright.records import Example, Record, Task, read_jsonl
from kernelwright.runs import write_text
from kernelwright.tasks.probe import ReferenceProbe
from kernelwright.verify import VerifierPool

FAILURES = 3
"""Problems of a chunk that may be lost to a failing judge before the chunk is given up."""


class Worker:
    """What a process keeps from one chunk to the next."""

    def __init__(self, config: BulkConfig, parts: Path, pool: Any, stack: ExitStack) -> None:
        self.config, self.parts, self.pool, self._stack = config, parts, pool, stack
        self._compiler: Compiler | None = None
        self._probe: ReferenceProbe | None = None
        self._tasks: list[Task] = []
        self._examples: list[Example] = []

    def teach(self, task: Task) -> Answer:
        """Inductor's answer. A helper that dies is replaced, once a task."""
        for _ in range(2):
            if self._compiler is None:
                self._compiler = self._stack.enter_context(Compiler(self.config.target))
            try:
                return self._compiler.module(task)
            except InfrastructureError:
                self._compiler = None
        return Answer(reason="crash: the helper died")

    def given(self, teacher: Teacher, number: int) -> Task | Example | None:
        """That line of the teacher's file, with small shapes; None where the teacher has none."""
        if teacher == "tasks":
            self._tasks = self._tasks or list(read_jsonl(self.parts / "tasks.list", Task))
            return self._small(self._tasks[number])
        if teacher == "examples":
            self._examples = self._examples or list(read_jsonl(self.parts / "examples.list", Example))
            found = self._examples[number]
            return found.model_copy(update={"task": self._small(found.task)})
        return None

    def _small(self, task: Task) -> Task:
        if self._probe is None:
            self._probe = self._stack.enter_context(ReferenceProbe())
        return tasks.small_shapes(task, self._probe)

    def make(self, chunk: Chunk) -> dict[str, Any]:
        """Make a chunk and write its files. Returns its counts."""
        start, counts = time.perf_counter(), Counter[str]()
        entries: list[Entry] = []
        rejected: list[Rejected] = []
        alone: list[Practice] = []
        failures = 0
        for number in range(chunk.start, chunk.stop):
            made = self._problem(chunk, number, counts)
            if made is None:
                continue
            if chunk.teacher == "practice":
                alone.append(practice(made))
                continue
            try:
                # Nothing else is done meanwhile: Python 3.11 cannot parse in two threads at a time (gh-106905).
                heard = decide(self.config, ask(made, self.pool))
            except InfrastructureError:
                failures += 1
                if failures > FAILURES:
                    raise
                counts["skipped: judge failed"] += 1
                continue
            except Exception as error:  # a reference may raise anything
                counts[f"skipped: broken task: {type(error).__name__}"] += 1
                continue
            entries += heard.entries
            rejected += heard.rejected
            counts.update(heard.counts)
        _write(self.parts / f"{chunk.name}.jsonl", [*entries, *alone])
        _write(self.parts / f"{chunk.name}.rejected.jsonl", rejected)
        told = {"counts": dict(counts), "seconds": round(time.perf_counter() - start, 2)}
        write_text(self.parts / f"{chunk.name}.done.json", json.dumps(told))
        return told

    def _problem(self, chunk: Chunk, number: int, counts: Counter[str]) -> Problem | None:
        try:
            given = self.given(chunk.teacher, number)
            made = problem(self.config, chunk.teacher, number, self.teach, given)
        except (Skipped, UserError) as reason:
            counts[f"skipped: {reason}"[:100]] += 1
            return None
        if not varies(made.wordings[0]):
            counts["skipped: output hardly varies"] += 1
            return None
        counts[f"problems: {chunk.teacher}"] += 1
        return made


def _write(path: Path, records: list[Any]) -> None:
    lines = (record.model_dump_json() + "\n" for record in records if isinstance(record, Record))
    write_text(path, "".join(lines))


def _main(config: str, parts: str) -> None:
    import torch

    torch.set_num_threads(1)
    wanted = BulkConfig.model_validate_json(config)
    with ExitStack() as stack:
        pool = VerifierPool(
            1, backend="interpret", protocol="strict", target=wanted.target, deadline_s=wanted.deadline
        )
        worker = Worker(wanted, Path(parts), stack.enter_context(pool), stack)
        serve(lambda question: worker.make(Chunk.model_validate(question)))


if __name__ == "__main__":
    _main(*sys.argv[1:])
