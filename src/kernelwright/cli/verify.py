"""`kernelwright verify`: one verdict, or with `--watch` one for each change of the files. Does not execute a kernel: the judge does."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.cli import read, show
from kernelwright.errors import UserError
from kernelwright.records import Candidate, Task
from kernelwright.rollouts import in_module
from kernelwright.verify import opened
from kernelwright.verify.gpu.sanitizer import unavailable

if TYPE_CHECKING:
    from kernelwright.verify.batch import Pool

_LOOK_S = 0.3


@dataclass(frozen=True)
class Asked:
    """What is judged, by its names, and where the verdict goes."""

    task: str
    kernel: Path
    precision: str = "default"
    gradients: bool = False
    sizes: str = ""
    json_file: Path | None = None

    def read_task(self) -> Task:
        """As its file is now. Raises UserError."""
        task = read.one_task(self.task, self.precision)
        if self.gradients:
            task = task.model_copy(update={"gradients": True})
        return read.with_ranges(task, self.sizes) if self.sizes else task


def command(asked: Asked, judge: Mapping[str, Any]) -> int:
    """One verdict, printed. Returns the exit code."""
    read.json_place(asked.json_file)
    candidate, task = read.kernel(asked.kernel), asked.read_task()
    with opened.judge_at(task=task, **judge) as pool:
        if judge["sanitize"] and (why := unavailable(pool.backend)):
            print(why, file=sys.stderr)
        return _judged(asked, task, candidate, pool)


def watch(asked: Asked, judge: Mapping[str, Any]) -> int:
    """Verdicts until Ctrl-C; what is wrong with a file is said, and waited for to change."""
    read.json_place(asked.json_file)
    files = asked.kernel, Path(asked.task)
    task, seen = None, None
    with opened.judge_at(task=None, **judge) as pool:
        while True:
            now = [path.stat().st_mtime_ns if path.is_file() else 0 for path in files]
            if now == seen:
                time.sleep(_LOOK_S)
                continue
            try:
                if seen is None or now[1] != seen[1]:
                    task = None
                task = task or asked.read_task()
                _judged(asked, task, read.kernel(asked.kernel), pool)
            except UserError as error:
                print(f"kernelwright: {error}", file=sys.stderr, flush=True)
            seen = now


def _judged(asked: Asked, task: Task, candidate: Candidate, pool: Pool) -> int:
    verdict = pool.verify(task, in_module(task, candidate))
    if not read.write_json(asked.json_file, verdict.model_dump_json(indent=2)):
        show.console().print(show.verdict(verdict))
    # A kernel that this backend cannot run was not judged: that is no rejection.
    return 0 if verdict.correct else 1 if verdict.outcome.judged else 3
