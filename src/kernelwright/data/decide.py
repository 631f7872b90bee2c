"""Has a problem's kernels judged, and makes pairs of the verdicts.

    write     the graph -> each accepted plan with its code
    improve   an accepted kernel with its profile -> the fastest one, if that is faster by `min_gain`
    repair    a broken kernel with the judge's message -> the kernel it was made from

Rejected kernels are kept with their verdicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Literal

from kernelwright import prompts
from kernelwright.data.problems import Answer, Problem
from kernelwright.data.settings import CorpusSettings
from kernelwright.errors import InfrastructureError
from kernelwright.outcomes import Outcome
from kernelwright.records import Pair, Record, Shown, Task, Verdict

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier


class Refused(Record):
    """A kernel that the judge rejected, or accepted despite a planted fault."""

    task: Task
    plan: str
    """The answer's plan; for a survivor, the kind of its fault."""
    code: str
    verdict: Verdict


class Decided(Record):
    """The results of a problem."""

    pairs: tuple[Pair, ...] = ()
    refused: tuple[Refused, ...] = ()
    survivors: tuple[Refused, ...] = ()
    """Kernels with a planted fault that the judge accepted."""
    counts: Mapping[str, int] = {}


Pending = tuple[Problem, list[Future[Verdict]], list[Future[Verdict]]]
"""A problem with the pending verdicts on its answers and on its broken kernels."""


def ask(problem: Problem, verifier: Verifier, pricing: Verifier | None = None) -> Pending:
    """Submit every kernel of a problem to the judge or, if the problem is not judged, to `pricing`, if given."""
    judge = verifier if problem.judged else pricing
    if judge is None:
        return problem, [], []
    answers, broken = (
        [judge.submit(problem.task, problem.candidate(one.code)) for one in codes]
        for codes in (problem.answers, problem.broken)
    )
    return problem, answers, broken


def decide(settings: CorpusSettings, pending: Pending) -> Decided:
    """The pairs of a problem, once its verdicts arrive. Raises InfrastructureError if the judge failed."""
    problem, answers, broken = pending
    counts: Counter[str] = Counter()
    if not problem.judged:
        counts["graphs: at the printer's word"] += 1
    if not answers:
        pairs = [_print(settings, problem, answer) for answer in problem.answers]
        return Decided(pairs=tuple(pairs), counts=dict(counts))
    judged = [(answer, fair(future)) for answer, future in zip(problem.answers, answers, strict=True)]
    nests = "" if problem.judged else "priced "
    counts.update(f"{nests}{answer.schedule.nest}: {verdict.outcome.value}" for answer, verdict in judged)
    right = [(answer, verdict) for answer, verdict in judged if verdict.correct]
    best = min((us for _, verdict in right if (us := _us(verdict)) is not None), default=None)
    pairs = [_pair(settings, problem, answer, verdict, best) for answer, verdict in right]
    pairs += _improvements(settings, problem, right, best, counts)
    pairs += _repairs(settings, problem, right, broken, best, counts)
    refused = tuple(
        Refused(task=problem.task, plan=answer.plan, code=answer.code, verdict=verdict)
        for answer, verdict in judged
        if not verdict.correct
    )
    survivors = tuple(
        Refused(task=problem.task, plan=fault.kind, code=fault.code, verdict=verdict)
        for fault, future in zip(problem.broken, broken, strict=True)
        if (verdict := fair(future)).correct
    )
    return Decided(pairs=tuple(pairs), refused=refused, survivors=survivors, counts=dict(counts))


def _improvements(
    settings: CorpusSettings,
    problem: Problem,
    right: Sequence[tuple[Answer, Verdict]],
    best: float | None,
    counts: Counter[str],
) -> list[Pair]:
    """Each slower kernel with its profile, paired with the fastest."""
    timed = sorted(
        ((us, number) for number, (_, verdict) in enumerate(right) if (us := _us(verdict)) is not None)
    )
    made = []
    for us, number in timed[1:]:
        if us < settings.min_gain * timed[0][0]:
            counts["dropped: no gain"] += 1
            continue
        slow, verdict = right[number]
        shown = Shown(plan=slow.plan, code=slow.code, feedback=prompts.profile(verdict), us=us)
        made.append(_pair(settings, problem, *right[timed[0][1]], best, shown, "improve"))
    return made


def _repairs(
    settings: CorpusSettings,
    problem: Problem,
    right: Sequence[tuple[Answer, Verdict]],
    broken: Sequence[Future[Verdict]],
    best: float | None,
    counts: Counter[str],
) -> list[Pair]:
    """Each broken kernel that the judge rejects, with its message, paired with the original."""
    made = []
    for fault, future in zip(problem.broken, broken, strict=True):
        verdict = fair(future)
        counts[f"fault: {'survived' if verdict.correct else 'rejected'}"] += 1
        if verdict.correct:
            counts[f"survivor: {fault.kind}"] += 1
        answered = next(((a, v) for a, v in right if a is problem.answers[fault.of]), None)
        if answered is not None and not verdict.correct and verdict.outcome.judged:
            shown = Shown(plan=answered[0].plan, code=fault.code, feedback=prompts.feedback(verdict))
            made.append(_pair(settings, problem, *answered, best, shown, "repair"))
    return made


def _pair(
    settings: CorpusSettings,
    problem: Problem,
    answer: Answer,
    verdict: Verdict,
    best: float | None,
    shown: Shown | None = None,
    kind: Literal["write", "improve", "repair"] = "write",
) -> Pair:
    judged = {
        "us": _us(verdict),
        "best_us": best,
        "outcome": verdict.outcome,
        "cases": verdict.evidence.cases,
    }
    made = dict(_print(settings, problem, answer))
    return Pair(**{**made, **judged, "kind": kind, "shown": shown, "judged": problem.judged})


def _print(settings: CorpusSettings, problem: Problem, answer: Answer) -> Pair:
    """The pair of an answer that was not judged."""
    return Pair(
        task=problem.task,
        digest=problem.graph.digest,
        structure=problem.structure,
        label=problem.label,
        source=problem.source,
        precision=problem.precision,
        target=settings.target,
        plan=answer.plan,
        code=answer.code,
        schedule=answer.schedule.model_dump_json(),
        judged=False,
        split=split_of(settings, problem),
    )


def split_of(settings: CorpusSettings, problem: Problem) -> Literal["train", "validation", "heldout"]:
    """The split, by structure only, so that no size or spelling of a held-out graph is trained on."""
    place = int(problem.structure[:8], 16) / 2**32
    if problem.operators <= 1 or place >= settings.heldout + settings.validation:
        return "train"
    return "heldout" if place < settings.heldout else "validation"


def _us(verdict: Verdict) -> float | None:
    return None if verdict.timing is None else 1e3 * verdict.timing.candidate_ms


def fair(future: Future[Verdict]) -> Verdict:
    """Wait for a verdict. Raises InfrastructureError if the judge itself failed."""
    verdict = future.result()
    if verdict.outcome is Outcome.INFRASTRUCTURE_ERROR:
        raise InfrastructureError(
            f"data: the judge failed on {verdict.task_id}: {verdict.detail}; run again to go on"
        )
    return verdict
