"""One problem before the judge, and the examples that come of it.

    translate   each wording of the task -> the fastest correct kernel, or another correct one that is about as fast
    improve     a correct kernel with its profile -> the fastest, where that is faster by `min_gain`
    repair      a mutant with the judge's message -> the kernel it was made from, where the judge rejects the mutant

Only the first wording is judged. The others count because their reference gives the same weights, inputs and outputs
as the judged one, bit for bit, at every small shape; one that does not is dropped. Where the policy reads lowered
references, an answer to one of them has its constructor (`arrangement`). Plans are checked, too.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Literal

from kernelwright import prompts
from kernelwright.data import normal, plans
from kernelwright.data.arrangement import arranged
from kernelwright.data.bulk.config import BulkConfig
from kernelwright.data.bulk.problems import Kernel, Problem
from kernelwright.data.bulk.values import same
from kernelwright.data.corpus import identity
from kernelwright.data.fingerprint import prints
from kernelwright.data.validate import Rejected, fair
from kernelwright.prompts.renaming import renamed_task
from kernelwright.records import Candidate, Example, Record, Task, Verdict

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier

CLOSE = 1.05
"""A kernel within this ratio of the fastest is as good an answer."""


class Entry(Record):
    """An accepted example with the digests by which duplicates and leaks are found."""

    example: Example
    form: str
    """Kind, reference and kernels in normal form."""
    skeleton: str
    """The same without any number."""
    function: str
    """Operator graph of the reference as PyTorch runs it; empty where that is not known."""
    shaped: str
    """The same with shapes and types."""
    reference: str
    """The reference in normal form, sizes apart."""
    kernels: tuple[str, ...]
    """Every kernel function of the answer in normal form."""


class Practice(Record):
    """A task that nobody answers here, with the digests by which leaks are found."""

    task: Task
    graph: str
    function: str
    shaped: str
    reference: str


class Heard(Record):
    """What came of a problem."""

    entries: tuple[Entry, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    counts: Mapping[str, int] = {}
    """Hearings by `teacher: outcome`, and what was left out by `dropped: reason`."""


Asked = tuple[Problem, list[Future[Verdict]], list[Future[Verdict]]]
"""A problem, and what the judge will say to its kernels and to its mutants."""
Correct = tuple[Kernel, Verdict]
"""A kernel that the judge accepts. In a list of them the fastest comes first."""


def ask(problem: Problem, verifier: Verifier) -> Asked:
    """Have every kernel and mutant of a problem heard."""
    task = problem.wordings[0]
    kernels = [verifier.submit(task, Candidate(code=kernel.code)) for kernel in problem.kernels]
    mutants = [verifier.submit(task, Candidate(code=code)) for code in problem.mutants]
    return problem, kernels, mutants


def decide(config: BulkConfig, asked: Asked) -> Heard:
    """The examples of a problem, when its verdicts are in. Raises InfrastructureError where the judge failed."""
    problem, kernels, mutants = asked
    counts: Counter[str] = Counter()
    heard = [(kernel, fair(future)) for kernel, future in zip(problem.kernels, kernels, strict=True)]
    counts.update(f"{kernel.teacher}: {verdict.outcome.value}" for kernel, verdict in heard)
    right = sorted(
        ((kernel, verdict) for kernel, verdict in heard if verdict.correct), key=lambda e: _ms(e[1])
    )
    wordings = _equal(problem.wordings, counts) if right else []
    made = _translate(problem, right, wordings)
    made += _improve(config, problem, right, wordings, counts)
    made += _repair(problem, right, mutants, wordings, counts)
    rejected = [
        Rejected(
            example=_example(problem, "translate", problem.wordings[0], kernel),
            reason=f"answer: {verdict.outcome.value}",
            verdict=verdict,
        )
        for kernel, verdict in heard
        if not verdict.correct
    ]
    return Heard(entries=tuple(_entries(made, counts)), rejected=tuple(rejected), counts=dict(counts))


def _translate(problem: Problem, right: Sequence[Correct], wordings: Sequence[Task]) -> list[Example]:
    """An answer to every wording: in turn the kernels that are about as fast as the fastest."""
    close = [kernel for kernel, verdict in right if _ms(verdict) <= CLOSE * _ms(right[0][1])]
    return [
        _example(problem, "translate", task, close[number % len(close)])
        for number, task in enumerate(wordings)
    ]


def _improve(
    config: BulkConfig,
    problem: Problem,
    right: Sequence[Correct],
    wordings: Sequence[Task],
    counts: Counter[str],
) -> list[Example]:
    """Each correct kernel that is enough slower than the fastest, with its profile, and the fastest as the answer."""
    made: list[Example] = []
    for kernel, verdict in right[1:]:
        best, fastest = right[0]
        if fastest.timing is None or verdict.timing is None:
            counts["dropped: not timed"] += 1
        elif verdict.timing.candidate_ms < config.min_gain * fastest.timing.candidate_ms:
            counts["dropped: no gain"] += 1
        else:
            told = prompts.profile(verdict)
            made += [_example(problem, "improve", task, best, _for(task, kernel), told) for task in wordings]
    return made


def _repair(
    problem: Problem,
    right: Sequence[Correct],
    mutants: Sequence[Future[Verdict]],
    wordings: Sequence[Task],
    counts: Counter[str],
) -> list[Example]:
    """Each mutant that the judge rejects, with its message, and the kernel it was made from, where that is correct."""
    made: list[Example] = []
    for code, future in zip(problem.mutants, mutants, strict=True):
        verdict = fair(future)
        counts[f"mutant: {verdict.outcome.value}"] += 1
        if verdict.correct or not verdict.outcome.judged:
            counts["dropped: fault does not show"] += verdict.correct
        elif any(kernel is problem.kernels[0] for kernel, _ in right):
            told = prompts.feedback(verdict)  # may name a line
            same = [task for task in wordings if not task.lowered or arranged(code, task.lowered) == code]
            made += [_example(problem, "repair", task, problem.kernels[0], code, told) for task in same]
    return made


def _example(
    problem: Problem,
    kind: Literal["translate", "repair", "improve"],
    task: Task,
    answer: Kernel,
    shown: str = "",
    feedback: str = "",
) -> Example:
    code = _for(task, answer)
    return Example(
        kind=kind,
        task=task,
        kernel=shown,
        feedback=feedback,
        plan=plans.plan(code),
        code=code,
        teacher=answer.teacher,
        split=problem.split,
        graph=problem.graph,
    )


def _for(task: Task, kernel: Kernel) -> str:
    """A kernel arranged after a wording, where that is lowered."""
    return kernel.worded(task.lowered) if task.lowered else kernel.code


def _entries(examples: Sequence[Example], counts: Counter[str]) -> list[Entry]:
    found: list[Entry] = []
    digests: dict[str, tuple[str, str, str]] = {}
    for example in examples:
        if plans.problems(example.plan, example.code):
            counts["dropped: plan not true"] += 1
            continue
        task = example.task
        if task.id not in digests:
            digests[task.id] = _digests(task)
        function, shaped, reference = digests[task.id]
        found.append(
            Entry(
                example=example,
                form=identity(example),
                skeleton=skeleton(example),
                function=function,
                shaped=shaped,
                reference=reference,
                kernels=tuple(sorted(normal.kernel_forms(example.code))),
            )
        )
    return found


def practice(problem: Problem) -> Practice:
    """A problem's task without its kernels, under names as strange as those in a training's copies: what reinforcement sees
    only under the families' own it soon cannot copy any more."""
    task = problem.wordings[0]
    task = renamed_task(task, random.Random(task.digest))
    function, shaped, reference = _digests(task)
    return Practice(task=task, graph=problem.graph, function=function, shaped=shaped, reference=reference)


def _digests(task: Task) -> tuple[str, str, str]:
    """`function`, `shaped` and `reference` of an entry."""
    return (*prints(task), reference_form(task))


def reference_form(task: Task) -> str:
    """Digest of a reference but for names, docstrings and sizes."""
    return normal.digest(normal.normal_form(task.source))


def skeleton(example: Example) -> str:
    """What is left of an example's identity without any number."""
    parts = (example.task.source, example.kernel, example.code)
    return normal.digest(example.kind, *(normal.numberless(normal.normal_form(part)) for part in parts))


def _equal(wordings: Sequence[Task], counts: Counter[str]) -> list[Task]:
    """The first wording, and those others that are the same task bit for bit."""
    kept = [wordings[0]]
    for task in wordings[1:]:
        if same(wordings[0], task):
            kept.append(task)
        else:
            counts["dropped: wording differs"] += 1
    return kept


def _ms(verdict: Verdict) -> float:
    return verdict.timing.candidate_ms if verdict.timing is not None else float("inf")
