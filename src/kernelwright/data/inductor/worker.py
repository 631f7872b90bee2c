"""Inductor in processes of its own: one helper that imports torch once and forks for each task.

    with Workers() as workers:
        lesson = workers.teach(task)     # Lesson(code=..., ...) or Lesson(reason="extern: aten.mm")

A task that crashes, hangs or asks for too much memory ends its child and is a counted reason. References are trusted
code: the limits contain accidents, not attacks.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
from typing import Any, Self

from kernelwright.data.inductor.reasons import Fallback
from kernelwright.errors import InfrastructureError
from kernelwright.hardware import target as target_sheet
from kernelwright.records import Record, Task

SECONDS = 60.0
MEMORY = 12 * 2**30
"""Bytes of address space for one task."""
LONGEST = 12_000
"""Characters of a module that is still an example."""


class Lesson(Record):
    """What came of one task: a module, or the reason why there is none."""

    code: str = ""
    reason: str = ""
    graph: str = ""
    """Digest of the aten graph."""
    raw: str = ""
    """Inductor's own module."""


class Workers:
    """The helper process, and the talk with it. `target` is a name of `hardware`, such as `h200`."""

    def __init__(self, target: str = "h200", seconds: float = SECONDS) -> None:
        self.target, self.seconds = target_sheet(target).name, seconds
        self._helper: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._helper = subprocess.Popen(
            [sys.executable, "-m", "kernelwright.data.inductor.worker", self.target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._helper is not None:
            os.killpg(self._helper.pid, signal.SIGKILL)  # the child that it may be waiting for, too
            self._helper.communicate()
            self._helper = None

    def teach(self, task: Task) -> Lesson:
        """Raises InfrastructureError when the helper itself has died."""
        assert self._helper is not None, "use Workers as a context manager"
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        try:
            question = {"task": task.model_dump(mode="json"), "seconds": self.seconds}
            self._helper.stdin.write(json.dumps(question) + "\n")
            self._helper.stdin.flush()
            answer = self._helper.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            raise InfrastructureError("the helper process that runs Inductor has died; run again to go on")
        return Lesson.model_validate_json(answer)


def lesson(task: Task) -> Lesson:
    """The whole way in this process, which `offline.install` has prepared. Never raises."""
    from kernelwright.data.inductor import module, trace
    from kernelwright.verify.static import inspect_code

    try:
        traced = trace.trace(task)
        code = module.write(traced, task.source)
        if len(code) > LONGEST:
            raise Fallback("too long", f"more than {LONGEST} characters")
        finding = inspect_code(code)
        if finding is not None:
            raise Fallback("rubbish", f"{finding.outcome.value}: {finding.detail}"[:160])
        return Lesson(code=code, graph=traced.graph, raw=traced.code)
    except Fallback as reason:
        return Lesson(reason=str(reason))
    except Exception as error:
        return Lesson(reason=f"unsupported: {type(error).__name__}: {error}"[:160])


def _serve(target: str) -> None:
    """Read questions as JSON lines on stdin; answer each with a Lesson from a forked, limited child."""
    import torch

    from kernelwright.data.inductor import offline

    torch.set_num_threads(1)
    offline.install(target_sheet(target))
    lesson(_WARM_UP)  # first-use imports, paid once instead of in every child
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        answers.write(_forked(question["task"], question["seconds"]).model_dump_json() + "\n")
        answers.flush()


def _forked(fields: dict[str, Any], seconds: float) -> Lesson:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        status = 1
        try:
            with os.fdopen(writer, "w") as out:
                out.write(lesson(Task.model_validate(fields)).model_dump_json())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    text, ended = _read(reader, child, seconds)
    if not ended:
        return Lesson(reason=f"timeout: more than {seconds:g} s")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Lesson.model_validate_json(text) if code == 0 and text else Lesson(reason=f"crash: status {code}")


def _read(reader: int, child: int, seconds: float) -> tuple[str, bool]:
    """All that the child writes, and whether it ended by itself; at the limit it is killed."""
    import time

    deadline = time.monotonic() + seconds
    parts: list[bytes] = []
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = pipe.read(1 << 16)
            if not part:
                return b"".join(parts).decode(), True
            parts.append(part)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "", False


_WARM_UP = Task(
    id="warm/up",
    source="""
import torch
N = 128
class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(n, n)
    def forward(self, x):
        return torch.softmax(self.linear(x), dim=-1)
def get_inputs(): return [torch.rand(N, N)]
def get_init_inputs(): return [N]
""",
    shapes={"small": {"N": 16}},
)

if __name__ == "__main__":
    _serve(sys.argv[1])
