"""Evaluates a policy: sample every task, verify every sample, summarise. Resumable; works on batches of tasks.

Sampling continues while earlier samples are verified, so a slow verification delays nothing else.

Writes a run folder: config.json, environment.json, rollouts.jsonl (complete groups only), metrics.json. The front end is
asked about tasks. A later agent is evaluated at its place in the pipeline: it is asked once about each verified kernel of
the previous evaluation, and rollouts.jsonl has what the pipeline then passes on, sample by sample: the new kernel if it is
verified and faster, else the given one. So the share of correct samples cannot change, speedups are over the same samples
as before, and a policy that improves nothing has a gain of exactly 1. The agent's own answers are in attempts.jsonl.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelwright import metrics, prompts
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy import Policy
from kernelwright.progress import Bar
from kernelwright.records import Agent, Prompt, Rollout, Task, read_jsonl
from kernelwright.rollouts import Judge, Rolling, Verifier, hand_on
from kernelwright.runs import RunFolder

AHEAD = 512
"""Most samples whose verdicts may be pending."""
Before = Mapping[str, Sequence[Rollout]]
"""The rollouts of the previous evaluation, by task."""
_Batch = tuple[Sequence[Task], Rolling]
"""Some tasks, and their samples with pending verdicts."""


def evaluate(
    policy: Policy,
    tasks: Sequence[Task],
    out: Path | str,
    *,
    verifier: Verifier,
    samples: int = 1,
    agent: Agent = "frontend",
    kernels: Before | None = None,
    protocol: str = "strict",
    style: prompts.Style = "chat",
    reward: str = "wright",
    temperature: float = 1.0,
    top_p: float = 1.0,
    max_tokens: int = 1024,
    target: str = "",
    seed: int = 0,
    batch: int = 8,
    answer: prompts.Answer = "plan+code",
    profile: bool = True,
    migrating: bool = False,
    resume: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """Evaluate with `samples` completions per task, `batch` tasks at a time. Returns the content of metrics.json.

    For a later agent, `kernels` has the previous agent's rollouts (see `rollouts_of`), of which the first `samples` of each task
    go through the pipeline, shown with what they take (`profile`). `protocol` is only recorded. `migrating`: see `Rolling`. Raises UserError if there is nothing to
    evaluate, a task is broken, or `out` holds another evaluation."""
    given = {task.id: list((kernels or {}).get(task.id, ()))[:samples] for task in tasks}
    todo = [task for task in tasks if agent == "frontend" or given[task.id]]
    if not todo:
        raise UserError("nothing to evaluate: no tasks" + (" with kernels to start from" if tasks else ""))
    run, judge = RunFolder(out), verifier if isinstance(verifier, Judge) else Judge(verifier)
    sampling: dict[str, Any] = {"temperature": temperature, "top_p": top_p}
    prompting = {"style": style, "max_tokens": max_tokens, "target": target, "answer": answer}
    facts = {"samples": samples, "agent": agent, "protocol": protocol, "reward": reward, "seed": seed}
    run.start(_config(policy, tasks, todo, migrating, {**facts, **sampling, **prompting}), resume=resume)
    expected = {task.id: samples if agent == "frontend" else len(given[task.id]) for task in todo}
    chunks = [todo[start : start + batch] for start in range(0, len(todo), batch)]
    unfinished = _unfinished(run, chunks, expected, unjudged=agent == "frontend")

    def write(number: int, chunk: Sequence[Task]) -> _Batch:
        """Sample the chunk; each sample goes to the verifier at once."""
        about, asked = _asks(agent, chunk, given, prompting, profile)
        rolling = Rolling(
            policy, asked, about, judge, reward=reward, stage="eval", step=0, migrating=migrating
        )
        if asked:  # one seed per chunk, so that a resumed evaluation samples the same as an uninterrupted one
            at = seed * 1_000_003 + number
            rolling.generate(samples if agent == "frontend" else 1, **sampling, seed=at)
        return chunk, rolling

    total = sum(expected.values())
    missing = sum(expected[task.id] for _, chunk in unfinished for task in chunk)
    with Bar(f"eval {agent}", total, done=total - missing, quiet=quiet) as bar:
        for chunk, rolling in _ahead(write(number, chunk) for number, chunk in unfinished):
            _log(run, chunk, rolling, given if agent != "frontend" else None, bar)
    run.write_json("metrics.json", summary := _summary(run, todo, given, agent, policy.name))
    return summary


def _ahead(batches: Iterable[_Batch]) -> Iterator[_Batch]:
    """The batches in order, each once more than `AHEAD` samples are pending, or all are written."""
    waiting: deque[_Batch] = deque()
    for batch in batches:
        waiting.append(batch)
        while sum(len(rolling.completions) for _, rolling in waiting) > AHEAD:
            yield waiting.popleft()
    while waiting:
        yield waiting.popleft()


def _log(run: RunFolder, chunk: Sequence[Task], rolling: Rolling, given: Before | None, bar: Bar) -> None:
    """Wait for a batch's verdicts and log them; for a later agent (`given`), log what the pipeline passes on."""
    rollouts = _judge([_with_names(r) for group in rolling.collect() for r in group])
    if given is not None:
        run.append("attempts.jsonl", rollouts)
        rollouts = _handed_on(chunk, given, rollouts)
    run.append("rollouts.jsonl", rollouts)
    correct = sum(r.verdict.correct for r in rollouts)
    bar.advance(len(rollouts), f"{correct}/{len(rollouts)} correct in the last batch")


def _config(
    policy: Policy, tasks: Sequence[Task], todo: Sequence[Task], migrating: bool, facts: dict[str, Any]
) -> dict[str, Any]:
    """The settings that identify an evaluation. Defaults of newer settings are left out, so that older evaluations can resume."""
    precision, usual = ", ".join(sorted({task.precision for task in tasks})), {"answer": "plan+code"}
    return {
        "policy": policy.name,
        "tasks": [task.id for task in todo],
        **{name: value for name, value in facts.items() if usual.get(name) != value},
        **({"migrate": True} if migrating else {}),
        **({"precision": precision} if precision != "default" else {}),
    }


def _summary(
    run: RunFolder, todo: Sequence[Task], given: Before, agent: Agent, policy: str
) -> dict[str, Any]:
    """Metrics of all logged rollouts; for a later agent also its gain, and metrics of its attempts."""
    rollouts = run.rows("rollouts.jsonl", Rollout)
    summary = dict(metrics.summarise(rollouts, todo))
    if agent != "frontend":
        summary["attempts"] = metrics.summarise(run.rows("attempts.jsonl", Rollout), todo)
        after = {task.id: [r for r in rollouts if r.task_id == task.id] for task in todo}
        summary["gain"] = gain(given, after)
    return {**summary, "agent": agent, "policy": policy}


def _asks(
    agent: Agent,
    chunk: Sequence[Task],
    given: Before,
    prompting: Mapping[str, Any],
    profile: bool,
) -> tuple[list[Task], list[Prompt]]:
    """What the agent is asked about these tasks: each task, or each verified kernel of the previous evaluation."""
    if agent == "frontend":
        return list(chunk), [prompts.render(agent, task, **prompting) for task in chunk]
    shown = [(task, r) for task in chunk for r in given[task.id] if r.verdict.correct]
    return [task for task, _ in shown], [
        prompts.render(
            agent,
            task,
            kernel=r.candidate.code,
            plan=r.candidate.plan,
            profile=prompts.profile(r.verdict) if profile else "",
            **prompting,
        )
        for task, r in shown
    ]


def rollouts_of(log: Path) -> dict[str, list[Rollout]]:
    """The rollouts of a JSONL log, by task, for `evaluate(kernels=...)`."""
    found: dict[str, list[Rollout]] = {}
    for rollout in read_jsonl(log, Rollout):
        found.setdefault(rollout.task_id, []).append(rollout)
    return found


def gain(before: Before, after: Before) -> dict[str, Any]:
    """The gain of a pipeline stage: time before over time after, sample by sample, over correct samples.

    Geometric mean with a 95 % interval that resamples tasks, and the share of samples that became faster. All None if no
    sample was correct and timed.
    """
    ratios = []
    for task_id, given in before.items():
        pairs = zip(given, after.get(task_id, ()), strict=False)
        timed = [
            (old.verdict.timing.candidate_ms, new.verdict.timing.candidate_ms)
            for old, new in pairs
            if old.verdict.timing is not None and new.verdict.timing is not None
        ]
        if timed:
            ratios.append([old / new for old, new in timed])
    flat = [ratio for group in ratios for ratio in group]
    return {
        "geometric_mean": metrics.geometric_mean(flat) if flat else None,
        "ci": metrics.geometric_mean_interval(ratios) if flat else None,
        "improved": sum(ratio > 1 for ratio in flat) / len(flat) if flat else None,
        "samples": len(flat),
    }


def _unfinished(
    run: RunFolder, chunks: Sequence[Sequence[Task]], expected: Mapping[str, int], unjudged: bool
) -> list[tuple[int, Sequence[Task]]]:
    """The chunks (with their numbers) that are incomplete in the log; their logged rollouts are removed.

    With `unjudged`, samples on which the verifier failed count as missing, so they are verified again.
    """
    counts: dict[str, int] = {}
    for row in run.lines("rollouts.jsonl"):
        if not unjudged or row["verdict"]["outcome"] != Outcome.INFRASTRUCTURE_ERROR:
            counts[row["task_id"]] = counts.get(row["task_id"], 0) + 1
    unfinished = [
        (number, chunk)
        for number, chunk in enumerate(chunks)
        if any(counts.get(task.id, 0) != expected[task.id] for task in chunk)
    ]
    again = {task.id for _, chunk in unfinished for task in chunk}
    for name in ("rollouts.jsonl", "attempts.jsonl"):
        run.keep_rows(name, lambda row: row["task_id"] not in again)
    return unfinished


def _handed_on(chunk: Sequence[Task], given: Before, attempts: Sequence[Rollout]) -> list[Rollout]:
    """What the pipeline passes on for each given rollout of the chunk's tasks; `attempts` are in the order asked."""
    coming = iter(attempts)
    return [
        hand_on(old, next(coming)) if old.verdict.correct else old for task in chunk for old in given[task.id]
    ]


def _judge(rollouts: list[Rollout]) -> list[Rollout]:
    """Returns `rollouts`. Raises InfrastructureError if the verifier failed on all that reached it."""
    failed = [r for r in rollouts if r.verdict.outcome is Outcome.INFRASTRUCTURE_ERROR]
    judged = [
        r for r in rollouts if r.verdict.outcome.judged and r.verdict.gate not in (Gate.PARSE, Gate.STATIC)
    ]
    if failed and not judged:
        raise InfrastructureError(
            f"eval: the verifier failed on all {len(failed)} candidates that came to it in a batch "
            f"({failed[0].verdict.detail}); see kernelwright doctor, then go on with --resume"
        )
    return rollouts


def _with_names(rollout: Rollout) -> Rollout:
    return rollout.model_copy(update={"group": f"eval/{rollout.task_id}"})
