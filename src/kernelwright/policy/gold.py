"""The gold kernels of the built-in tasks, and the policy that answers with them.

A task's gold is the `gold.py` in its folder or, without one, the library's print of its graph; what the library cannot print, the
compiler rung writes. The policy calibrates a run
(every gold must be accepted) and replaces a model in tests. Tasks without a gold get an empty completion. Golds are not
checked here, but by the suite's own test.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from kernelwright import prompts
from kernelwright.errors import UserError
from kernelwright.policy.policy import OnCompletion
from kernelwright.records import Completion, Prompt, Task
from kernelwright.tasks.builtin import FOLDER, SUITE, load_task
from kernelwright.tasks.form import read_text


@functools.cache
def gold(task_id: str) -> str:
    """Source of the gold kernel of `wright/<name>`. Raises UserError if there is none."""
    suite, _, name = task_id.partition("/")
    folder = FOLDER / name
    if suite != SUITE or not name or "/" in name or not folder.is_dir():
        raise UserError(f"no gold kernel for task {task_id!r}; only built-in tasks (wright/NAME) have one")
    written = folder / "gold.py"
    return read_text(written) if written.exists() else _print(load_task(folder, SUITE))


def _print(task: Task) -> str:
    """A module of the library's and the compiler's kernels for a task. Executes the task's reference."""
    from kernelwright.graph.partition import partition
    from kernelwright.graph.stitch import stitch
    from kernelwright.policy.compiler import CannotCompile, write
    from kernelwright.policy.compiler.task import module, read
    from kernelwright.synth.library import program_of
    from kernelwright.synth.to_triton import print_triton

    whole = read(task)
    cut = partition(whole.graph)
    kernels = {}
    for digest, groups in cut.distinct().items():
        program = program_of(groups[0].graph)
        try:
            kernels[digest] = write(groups[0].graph) if program is None else print_triton(program)
        except CannotCompile as reason:
            raise UserError(f"{task.id} has no gold: {reason}; write one by hand") from None
    return module(whole, stitch(cut, kernels), "run")


class GoldPolicy:
    """Answers with golds, the same for every sample and seed."""

    name = "gold"

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        on_completion: OnCompletion | None = None,
        **sampling: Any,
    ) -> list[list[Completion]]:
        answers = [[_answer(prompt.task_id)] * n for prompt in prompts]
        if on_completion is not None:
            for row, group in enumerate(answers):
                for sample, completion in enumerate(group):
                    on_completion(row, sample, completion)
        return answers

    def pieces(self, completion: Completion) -> tuple[str, ...] | None:
        return None


def _answer(task_id: str) -> Completion:
    try:
        code = gold(task_id)
    except UserError:
        return Completion(text="", policy="gold")
    return Completion(text=prompts.completion_text("the built-in gold kernel", code), policy="gold")
