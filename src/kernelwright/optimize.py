"""Module in, best verified kernel out: front end, mid-end, back end, best of n at each, every step verified.

A stage that makes nothing better hands on what it was given. Faster means less modelled time, or, where a clock
measured, intervals that do not overlap. Works in a run folder and resumes there, stage by stage.

Not guaranteed: that a kernel comes out (a policy may fail at every sample), nor that it is faster than eager.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from kernelwright import prompts
from kernelwright.config import Style
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Outcome
from kernelwright.policy import Policy, load_policy
from kernelwright.progress import Bar
from kernelwright.records import Agent, Candidate, Rollout, Task, Verdict
from kernelwright.rollouts import Judge, Verifier, hand_on, roll
from kernelwright.runs import RunFolder, write_text

AGENTS: tuple[Agent, ...] = ("frontend", "midend", "backend")


@dataclass(frozen=True)
class Step:
    """What one agent did with the task."""

    agent: Agent
    rollouts: Sequence[Rollout]
    best: Rollout | None
    """The best verified kernel after this step, its own or handed on."""
    improved: bool

    @property
    def correct(self) -> int:
        return sum(rollout.verdict.correct for rollout in self.rollouts)

    def summary(self) -> dict[str, object]:
        return {
            "agent": self.agent,
            "samples": len(self.rollouts),
            "correct": self.correct,
            "improved": self.improved,
            "speedup": self.best.verdict.speedup() if self.best else None,
        }


def agents_of(spec: str, target: str = "") -> dict[Agent, str]:
    """Which policy answers for which agent.

    A run folder that `train` wrote has a checkpoint for each stage that it trained (sft stands in for a missing
    front end). Anything else plays front end and mid-end, and the back end too when a `target` is named.
    """
    stages = Path(spec).expanduser() / "stages"
    if not stages.is_dir():
        return {agent: spec for agent in AGENTS if agent != "backend" or target}
    trained = {agent: stages / agent / "checkpoint" for agent in AGENTS}
    if not trained["frontend"].is_dir():
        trained["frontend"] = stages / "sft" / "checkpoint"
    found = {agent: str(path) for agent, path in trained.items() if path.is_dir()}
    if "frontend" not in found:
        raise UserError(
            f"policy {spec}: this run has no finished sft or frontend stage; go on with kernelwright train --resume"
        )
    return found


def style_of(policy: Policy) -> Style:
    """How to ask: as a local model without a chat template (ours) was trained, which its tokenizer says; else `chat`."""
    tokenizer = getattr(policy, "tokenizer", None)
    if tokenizer is None or getattr(tokenizer, "chat_template", None):
        return "chat"
    style: Style = getattr(tokenizer, "init_kwargs", {}).get("prompt_style", "compact")
    return style


def optimize(
    task: Task,
    policies: Mapping[Agent, str],
    run: RunFolder,
    *,
    verifier: Verifier,
    samples: int = 8,
    target: str = "h200",
    temperature: float = 0.8,
    max_tokens: int = 1024,
    seed: int = 0,
    resume: bool = False,
    quiet: bool = False,
    load: Callable[[str], Policy] = load_policy,
) -> list[Step]:
    """Ask each agent of `policies` for `samples` kernels. The last step's `best` is the result, if any.

    `run` gets config.json, environment.json, rollouts.jsonl and metrics.json. Raises InfrastructureError when the
    judge fails on every sample of a step.
    """
    config = {
        "task": task.model_dump(mode="json"),
        "policies": dict(policies),
        "samples": samples,
        "target": target,
        "temperature": temperature,
        "max_tokens": max_tokens,
        "seed": seed,
    }
    run.start(config, resume=resume)
    known = run.rows("rollouts.jsonl", Rollout)
    steps: list[Step] = []
    best: Rollout | None = None
    loaded: tuple[str, Policy] | None = None
    for agent in AGENTS:
        if agent not in policies or (best is None and agent != "frontend"):
            continue
        rollouts = [rollout for rollout in known if rollout.stage == agent]
        if len(rollouts) != samples:
            run.keep_rows("rollouts.jsonl", lambda row, agent=agent: row["stage"] != agent)
            if loaded is None or loaded[0] != policies[agent]:
                loaded = policies[agent], load(policies[agent])
            with Bar(agent, samples, quiet=quiet) as bar:
                rollouts = roll(
                    loaded[1],
                    [
                        prompts.render(
                            agent,
                            task,
                            style=style_of(loaded[1]),
                            kernel=best.candidate.code if best else "",
                            profile=prompts.profile(best.verdict) if best else "",
                            target=target,
                            max_tokens=max_tokens,
                        )
                    ],
                    [task],
                    _Watched(verifier, bar),
                    n=samples,
                    stage=agent,
                    temperature=temperature,
                    seed=seed,
                )[0]
            _check_judge(agent, rollouts)
            run.append("rollouts.jsonl", rollouts)
        given, made = best, choose(rollouts)
        best = hand_on(given, made) if given and made else made or given
        steps.append(Step(agent, rollouts, best, best is not given))
    run.write_json("metrics.json", {"task": task.id, "steps": [step.summary() for step in steps]})
    return steps


def choose(rollouts: Sequence[Rollout]) -> Rollout | None:
    """The verified rollout with the least time; an untimed one only where none is timed."""
    verified = [rollout for rollout in rollouts if rollout.verdict.correct]

    def milliseconds(rollout: Rollout) -> float:
        timing = rollout.verdict.timing
        return float("inf") if timing is None else timing.candidate_ms

    return min(verified, key=milliseconds, default=None)


def write_result(best: Rollout, out: Path) -> Path:
    """Write the kernel to `out`, byte for byte what was verified, and its verdict beside it. Returns the latter."""
    write_text(out, best.candidate.code)
    return write_text(out.with_suffix(".verdict.json"), best.verdict.model_dump_json(indent=2) + "\n")


def _check_judge(agent: str, rollouts: Sequence[Rollout]) -> None:
    failed = [r for r in rollouts if r.verdict.outcome is Outcome.INFRASTRUCTURE_ERROR]
    if len(failed) == len(rollouts):
        raise InfrastructureError(
            f"{agent}: the verifier failed on all {len(failed)} samples ({failed[0].verdict.detail}); "
            "see kernelwright doctor"
        )


class _Watched(Judge):
    """A judge whose verdicts advance a progress bar."""

    def __init__(self, pool: Verifier, bar: Bar) -> None:
        super().__init__(pool)
        self._bar, self._advancing, self._correct = bar, threading.Lock(), 0

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        future = super().submit(task, candidate)
        future.add_done_callback(self._advance)
        return future

    def _advance(self, future: Future[Verdict]) -> None:
        with self._advancing:
            if not future.cancelled() and future.exception() is None:
                self._correct += future.result().correct
            self._bar.advance(1, f"{self._correct} verified")
