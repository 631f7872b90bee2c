"""`kernelwright verify`: one verdict, or with `--watch` one per change of the files. Kernels are executed only by the judge."""

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
class Request:
    """What is judged, by name, and where the verdict goes."""

    task: str
    kernel: Path
    precision: str = "default"
    gradients: bool = False
    sizes: str = ""
    json_file: Path | None = None

    @property
    def files(self) -> tuple[Path, ...]:
        """The named files that a verdict depends on."""
        return self.kernel, Path(self.task.rpartition(":")[0] if read.names_object(self.task) else self.task)

    def read(self) -> tuple[Task, Candidate]:
        """Read the files as they are now. Raises UserError."""
        if read.names_object(self.task):
            task, candidate = read.read_class_task(self.task, self.kernel, self.precision)
        else:
            candidate = read.kernel(self.kernel)
            task = read.one_task(self.task, self.precision)
        if self.gradients:
            task = task.model_copy(update={"gradients": True})
        return read.with_ranges(task, self.sizes) if self.sizes else task, candidate


def command(request: Request, judge: Mapping[str, Any]) -> int:
    """Print one verdict. Returns the exit code."""
    read.json_place(request.json_file)
    task, candidate = request.read()
    with opened.judge_at(task=task, **judge) as pool:
        if judge["sanitize"] and (why := unavailable(pool.backend)):
            print(why, file=sys.stderr)
        return _judge(request, task, candidate, pool)


def watch(request: Request, judge: Mapping[str, Any]) -> int:
    """Print verdicts until Ctrl-C; after an error in a file, wait for it to change."""
    read.json_place(request.json_file)
    seen = None
    with opened.judge_at(task=None, **judge) as pool:
        while True:
            now = [path.stat().st_mtime_ns if path.is_file() else 0 for path in request.files]
            if now == seen:
                time.sleep(_LOOK_S)
                continue
            try:
                _judge(request, *request.read(), pool)
            except UserError as error:
                print(f"kernelwright: {error}", file=sys.stderr, flush=True)
            seen = now


def _judge(request: Request, task: Task, candidate: Candidate, pool: Pool) -> int:
    verdict = pool.verify(task, in_module(task, candidate))
    if not read.write_json(request.json_file, verdict.model_dump_json(indent=2)):
        show.console().print(show.verdict(verdict))
    # A kernel that this backend cannot run was not judged: that is not a rejection.
    return 0 if verdict.correct else 1 if verdict.outcome.judged else 3
