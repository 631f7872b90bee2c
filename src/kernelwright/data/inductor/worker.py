"""Inductor in processes of its own: one helper that imports torch once and forks for each task.

    with Workers() as workers:
        lesson = workers.teach(task)     # Lesson(code=..., ...) or Lesson(reason="extern: aten.mm")

A task that crashes, hangs or asks for too much memory ends its child and is a counted reason. References are trusted
code: the limits contain accidents, not attacks.
"""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

from kernelwright.children import Helper, forked, serve
from kernelwright.data.inductor.reasons import Fallback
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
    """Inductor's own module; there, too, where it could not be rewritten."""


class Workers(Helper):
    """The helper process, and the talk with it. `target` is a name of `hardware`, such as `h200`."""

    def __init__(self, target: str = "h200", seconds: float = SECONDS) -> None:
        self.target, self.seconds = target_sheet(target).name, seconds
        module = "kernelwright.data.inductor.worker"
        super().__init__(module, self.target, does="runs Inductor", quiet=True)

    def teach(self, task: Task) -> Lesson:
        """Raises InfrastructureError when the helper itself has died."""
        return Lesson.model_validate(
            self.ask({"task": task.model_dump(mode="json"), "seconds": self.seconds})
        )


def lesson(task: Task) -> Lesson:
    """The whole way in this process, which `offline.install` or `attach` has prepared. Never raises."""
    from kernelwright.data.inductor import module, trace
    from kernelwright.verify.static import inspect_code

    raw = ""
    try:
        traced = trace.trace(task)
        raw = traced.code
        code = module.write(traced, task.source)
        if len(code) > LONGEST:
            raise Fallback("too long", f"more than {LONGEST} characters")
        finding = inspect_code(code)
        if finding is not None:
            raise Fallback("rubbish", f"{finding.outcome.value}: {finding.detail}"[:160])
        return Lesson(code=code, graph=traced.graph, raw=raw)
    except Fallback as reason:
        return Lesson(reason=str(reason), raw=raw)
    except Exception as error:
        return Lesson(reason=f"unsupported: {type(error).__name__}: {error}"[:160], raw=raw)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    """A Lesson, as JSON, from a forked, limited child."""

    def learn(out: BinaryIO) -> None:
        out.write(lesson(Task.model_validate(question["task"])).model_dump_json().encode())

    ended = forked(learn, question["seconds"], memory=MEMORY)
    if ended.status is None:
        found = Lesson(reason=f"timeout: more than {question['seconds']:g} s")
    elif ended.status == 0 and ended.data:
        found = Lesson.model_validate_json(ended.data)
    else:
        found = Lesson(reason=f"crash: status {ended.status}")
    return found.model_dump(mode="json")


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
    import torch

    from kernelwright.data.inductor import offline

    torch.set_num_threads(1)
    offline.install(target_sheet(sys.argv[1]))
    lesson(_WARM_UP)  # first-use imports, paid once instead of in every child
    serve(_answer)
