"""Measure a policy: sample every task, verify every sample, summarise. Resumable task by task.

Writes a run folder: config.json, environment.json, rollouts.jsonl (whole groups only), metrics.json. The
mid-end is measured on kernels that were verified before, such as those its front end got accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernelwright import metrics, prompts
from kernelwright.errors import UserError
from kernelwright.policy import Policy
from kernelwright.progress import Bar
from kernelwright.records import Agent, Prompt, Rollout, Task, read_jsonl
from kernelwright.rollouts import Judge, Verifier, roll
from kernelwright.runs import RunFolder


def evaluate(
    policy: Policy,
    tasks: Sequence[Task],
    out: Path | str,
    *,
    verifier: Verifier,
    samples: int = 1,
    agent: Agent = "frontend",
    kernels: Mapping[str, Sequence[tuple[str, str]]] | None = None,
    protocol: str = "strict",
    style: str = "chat",
    reward: str = "wright",
    temperature: float = 1.0,
    top_p: float = 1.0,
    max_tokens: int = 1024,
    target: str = "",
    seed: int = 0,
    batch: int = 8,
    resume: bool = False,
    quiet: bool = False,
) -> dict[str, Any]:
    """`samples` completions for each task, `batch` tasks at a time. Returns what metrics.json holds.

    With `agent="midend"`, `kernels` maps task ids to (kernel, profile) pairs; sample i of a task is shown pair
    i modulo their number, and tasks without a pair are left out. `protocol` is recorded; the verifier was
    made with it. Raises UserError when there is nothing to evaluate or `out` holds another evaluation.
    """
    asks = {task.id: _prompts(task, samples, agent, kernels, style, max_tokens, target) for task in tasks}
    todo = [task for task in tasks if asks[task.id]]
    if not todo:
        raise UserError(
            f"nothing to evaluate: no task{' has a verified kernel to start from' if tasks else 's'}"
        )
    run = RunFolder(out)
    config = {
        "policy": policy.name,
        "tasks": [task.id for task in todo],
        "samples": samples,
        "agent": agent,
        "protocol": protocol,
        "style": style,
        "reward": reward,
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "target": target,
        "seed": seed,
    }
    run.start(config, resume=resume)
    counts: dict[str, int] = {}
    for rollout in run.rows("rollouts.jsonl", Rollout):
        counts[rollout.task_id] = counts.get(rollout.task_id, 0) + 1
    finished = {task_id for task_id, count in counts.items() if count == samples}
    # A torn group is made again.
    run.keep_rows("rollouts.jsonl", lambda row: row["task_id"] in finished)
    left = [task for task in todo if task.id not in finished]

    judge = Judge(verifier)
    with Bar(f"eval {agent}", len(todo) * samples, done=len(finished) * samples, quiet=quiet) as bar:
        for start in range(0, len(left), batch):
            chunk = left[start : start + batch]
            groups = _roll_chunk(
                policy, chunk, asks, judge, samples, reward, temperature, top_p, seed + todo.index(chunk[0])
            )
            run.append("rollouts.jsonl", [rollout for group in groups for rollout in group])
            correct = sum(r.verdict.correct for group in groups for r in group)
            bar.advance(len(chunk) * samples, f"{correct}/{len(chunk) * samples} correct in the last batch")
    summary = {
        **metrics.summarise(run.rows("rollouts.jsonl", Rollout)),
        "agent": agent,
        "policy": policy.name,
    }
    run.write_json("metrics.json", summary)
    return summary


def verified_kernels(rollouts: Path, per_task: int = 0) -> dict[str, list[tuple[str, str]]]:
    """(kernel, profile) of every accepted rollout in a JSONL log, by task; at most `per_task` each (0: all)."""
    found: dict[str, list[tuple[str, str]]] = {}
    for rollout in read_jsonl(rollouts, Rollout):
        if rollout.verdict.correct:
            kernels = found.setdefault(rollout.task_id, [])
            if not per_task or len(kernels) < per_task:
                kernels.append((rollout.candidate.code, prompts.profile(rollout.verdict)))
    return found


def _prompts(
    task: Task,
    samples: int,
    agent: Agent,
    kernels: Mapping[str, Sequence[tuple[str, str]]] | None,
    style: str,
    max_tokens: int,
    target: str,
) -> list[tuple[Prompt, int]]:
    """The distinct prompts for one task, each with its number of samples."""
    options: dict[str, Any] = {"style": style, "max_tokens": max_tokens, "target": target}
    if agent == "frontend":
        return [(prompts.render(agent, task, **options), samples)]
    shown = list((kernels or {}).get(task.id, ()))[:samples]
    return [
        (
            prompts.render(agent, task, kernel=kernel, profile=profile, **options),
            len(range(place, samples, len(shown))),
        )
        for place, (kernel, profile) in enumerate(shown)
    ]


def _roll_chunk(
    policy: Policy,
    chunk: Sequence[Task],
    asks: Mapping[str, Sequence[tuple[Prompt, int]]],
    judge: Judge,
    samples: int,
    reward: str,
    temperature: float,
    top_p: float,
    seed: int,
) -> list[list[Rollout]]:
    """The rollouts of some tasks, a group each. Prompts wanted equally often are sampled together."""
    groups: dict[str, list[Rollout]] = {task.id: [] for task in chunk}
    for n in sorted({count for task in chunk for _, count in asks[task.id]}):
        rows = [(task, prompt) for task in chunk for prompt, count in asks[task.id] if count == n]
        rolled = roll(
            policy,
            [prompt for _, prompt in rows],
            [task for task, _ in rows],
            judge,
            n=n,
            reward=reward,
            stage="eval",
            temperature=temperature,
            top_p=top_p,
            seed=seed,
        )
        for (task, _), group in zip(rows, rolled, strict=True):
            groups[task.id].extend(r.model_copy(update={"group": f"eval/{task.id}"}) for r in group)
    return list(groups.values())
