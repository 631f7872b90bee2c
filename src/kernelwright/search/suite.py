"""Evaluate rungs of the ladder on every task of a suite: one answer per task, as the last judge saw it.

Writes a run folder as `evaluate` does: config.json, environment.json, rollouts.jsonl, metrics.json, and searches.jsonl with
each rung's result for each task. A task without a kernel gets the verdict of the kernel that came furthest. Does
not use the user's cache, so that each rung is measured by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from kernelwright import metrics
from kernelwright.errors import UserError, one_line
from kernelwright.outcomes import Gate, Outcome
from kernelwright.progress import Bar
from kernelwright.records import Candidate, Completion, Message, Prompt, Rollout, Task, Verdict
from kernelwright.rollouts import Verifier
from kernelwright.runs import RunFolder
from kernelwright.search.cache import KernelCache
from kernelwright.search.cases import Case, of_task
from kernelwright.search.ladder import Tried
from kernelwright.search.rung import AnyRung
from kernelwright.search.whole import Found, Settings

POLICIES = ("ladder", "compiler", "library", "model")
"""What `eval --policy` measures here: all rungs, or one."""


def evaluate_rungs(
    policy: str,
    tasks: Sequence[Task],
    out: Path | str,
    judge: Callable[[], AbstractContextManager[Verifier]],
    rungs: Callable[[], Sequence[AnyRung]],
    settings: Settings,
    *,
    resume: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """One search per task, `settings.seconds` each. Returns the contents of metrics.json, including `rungs`, wins by rung, and
    `not_asked`, abstentions by rung.

    `judge` opens a judge with new secrets each time, for a search may end the one it used. Raises UserError if `out` holds
    another evaluation.
    """
    run = RunFolder(out)
    config = {
        "policy": policy,
        "tasks": [task.id for task in tasks],
        **vars(settings),
        "rungs": list(settings.rungs),
    }
    run.start(config, resume=resume)
    done = {row["task"] for row in run.lines("searches.jsonl")}
    run.keep_rows("rollouts.jsonl", lambda row: row["task_id"] in done)
    with Bar(f"eval {policy}", len(tasks), done=len(done), quiet=quiet) as bar:
        for task in tasks:
            if task.id in done:
                continue
            rollout, row = _search(policy, task, judge, rungs, settings)
            run.append("rollouts.jsonl", [rollout])
            run.append("searches.jsonl", [row])
            bar.advance(1, f"{task.id}: {rollout.verdict.outcome.value}")
    searches = run.lines("searches.jsonl")
    summary = {
        **metrics.summarise(run.rows("rollouts.jsonl", Rollout), tasks),
        "agent": "frontend",
        "policy": policy,
        "rungs": dict(Counter(row["rung"] for row in searches if row["rung"])),
        "not_asked": dict(
            Counter(
                one["rung"] for row in searches for one in row["tried"] if one["what"].startswith("not asked")
            )
        ),
    }
    run.write_json("metrics.json", summary)
    return summary


def _search(
    policy: str,
    task: Task,
    judge: Callable[[], AbstractContextManager[Verifier]],
    rungs: Callable[[], Sequence[AnyRung]],
    settings: Settings,
) -> tuple[Rollout, dict[str, Any]]:
    tries: list[Tried] = []
    case: Case | None = None
    try:
        case = of_task(task, settings.contractions, large=bool(settings.gpu))
        found = case.search(judge, rungs, KernelCache(None), settings, watch=tries.append)
    except UserError as error:
        found = Found(reason=one_line(error))
    answer = found.answer
    code = case.text(answer) if case and answer else ""
    verdict = answer.verdict if answer else _furthest(task, tries, found.reason, settings)
    rollout = Rollout(
        task_id=task.id,
        stage="eval",
        group=f"eval/{task.id}",
        prompt=Prompt(task_id=task.id, agent="frontend", messages=(_asked(policy),), max_tokens=1),
        completion=Completion(text="", policy=policy),
        candidate=Candidate(code=code) if code else Candidate(problem=Outcome.NO_CODE, detail=found.reason),
        verdict=verdict.model_copy(update={"task_id": task.id}),
        seconds={"total": round(found.seconds, 2)},
    )
    tried = [{"graph": one.graph, "rung": one.rung, "what": one.what} for one in tries]
    rung = answer.rung if answer else None
    rows = [row.model_dump(mode="json", exclude={"schema_version"}) for row in found.rows]
    reason = found.reason
    return rollout, {"task": task.id, "rung": rung, "seconds": round(found.seconds, 2), "reason": reason, "rows": rows,
                     "tried": tried}  # fmt: skip


def _asked(policy: str) -> Message:
    return Message(role="user", content=f"a kernel, by {policy}")


def _furthest(task: Task, tries: Sequence[Tried], reason: str, settings: Settings) -> Verdict:
    """The last rejected verdict on the whole, else the rejected one that passed most gates; else a verdict that there is no
    code."""
    order = list(Outcome)
    rejected = [one for one in tries if one.verdict is not None and not one.verdict.correct]
    whole = [one.verdict for one in rejected if one.rung == "whole"]
    others = sorted(
        (one.verdict for one in rejected if one.verdict), key=lambda one: order.index(one.outcome)
    )
    for verdict in (*whole[-1:], *others[-1:]):
        if verdict is not None:
            return verdict
    names: Any = settings.protocol.split(",")
    made = [
        Verdict(
            task_id=task.id, outcome=Outcome.NO_CODE, gate=Gate.PARSE, detail=reason, protocol=name.strip()
        )
        for name in names
    ]
    return made[0].model_copy(update={"beside": tuple(made[1:])})
