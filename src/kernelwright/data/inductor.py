"""The compiler rung as a teacher: tasks in, drafts out, the step `data inductor`, resumable.

Every task becomes a draft in `OUT` or, with the reason, a line in `OUT`'s `.skipped.jsonl`; both in the order of the
tasks, so a stopped run goes on where its files end. Drafts are unverified: `data validate` judges them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kernelwright import tasks
from kernelwright.data import plans
from kernelwright.data.corpus import Progress
from kernelwright.data.streams import Stream
from kernelwright.policy.compiler import Answer, Compiler
from kernelwright.records import Example, Record, Task
from kernelwright.tasks.probe import ReferenceProbe

LONGEST = 12_000
"""Characters of a module that is still an example."""


class Skipped(Record):
    """A task without a draft."""

    task: Task
    reason: str
    """Kind and detail, such as `extern: aten.sort`; see `policy.compiler.reasons.KINDS`."""


def teach(
    suite: Sequence[Task], out: Path, compiler: Compiler, progress: Progress | None = None
) -> Counter[str]:
    """Returns how many ended how: `rewritten`, or a kind of reason with its detail.

    Raises UserError where `out` cannot be written, InfrastructureError when the helper process dies.
    """
    good, bad = Stream(out, Example), Stream(out.with_name(f"{out.stem}.skipped.jsonl"), Skipped)
    done = len(good) + len(bad)
    if not (good.whole and bad.whole):
        with good, bad, ReferenceProbe() as probe:
            for number, task in enumerate(suite[done:], done + 1):
                task = tasks.small_shapes(task, probe)
                found = draft(task, compiler.module(task))
                if isinstance(found, Example):
                    good.write(found)
                else:
                    bad.write(found)
                if progress is not None:
                    progress("inductor", number, len(suite))
    return Counter({"rewritten": len(good), **Counter(item.reason for item in bad.records())})


def draft(task: Task, answer: Answer) -> Example | Skipped:
    """The example that an answer makes, with a plan that holds of its code."""
    if answer.reason:
        return Skipped(task=task, reason=answer.reason)
    if len(answer.code) > LONGEST:
        return Skipped(task=task, reason=f"too long: more than {LONGEST} characters")
    plan = plans.plan(answer.code)
    if not plans.is_true(plan, answer.code):
        return Skipped(task=task, reason="rubbish: no true plan")
    return Example(task=task, plan=plan, code=answer.code, teacher="inductor", graph=answer.graph)
