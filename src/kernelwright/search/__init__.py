"""Module in, best verified kernel out: front end, mid-end, back end, turn by turn, every candidate judged.

    frontend   best of n; what was rejected is shown again with the verifier's word, until one is correct
    midend     the fastest so far with its profile, as long as answers get faster
    backend    the same with the target's sheet, where a target is named
    tune       no model: block sizes, warps and stages by hill climbing on the target
    again      the winner before another judge, with other secrets; its word is the one that is given

A turn that makes nothing better hands on what it was given. Faster means less modelled time, or, where a clock
measured, intervals that do not overlap. Works in a run folder and resumes there, turn by turn, within a budget.

Not guaranteed: that a kernel comes out (a policy may fail at every sample), nor that it is faster than eager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from kernelwright import prompts
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.outcomes import Outcome
from kernelwright.policy import Policy, check_default, load_policy
from kernelwright.records import (
    Agent,
    Candidate,
    Completion,
    Message,
    Prompt,
    Rollout,
    Task,
    Verdict,
)
from kernelwright.rollouts import Rolling, Verifier, faster
from kernelwright.runs import RunFolder, write_text
from kernelwright.search.asks import Asking, fitting, rejected, style_of, verified
from kernelwright.search.budget import Budget, Hearings
from kernelwright.search.tune import tune, worth_it

__all__ = [
    "AGENTS",
    "Found",
    "Settings",
    "Turn",
    "Watch",
    "agents_of",
    "optimize",
    "style_of",
    "write_result",
]

AGENTS: tuple[Agent, ...] = ("frontend", "midend", "backend")
_SHARES = {"frontend": 0.6, "midend": 0.7, "backend": 0.8, "tune": 1.0}
"""Up to which share of the budget each may work; the front end's repairs may use it all."""
_AGAIN = 5
"""Winners that are heard again, should the first be rejected then."""


@dataclass(frozen=True)
class Settings:
    """How long and how hard to search."""

    samples: int = 8
    """Kernels asked of an agent in one turn."""
    turns: int = 3
    """Turns of each agent at most."""
    target: str = "h200"
    temperature: float = 0.8
    max_tokens: int = 1024
    seed: int = 0
    verdicts: int = 0
    """Candidates judged at most; 0: no limit."""
    seconds: float = 0.0
    """After which nothing new is begun; 0: no limit. The second hearing of the winner comes on top."""
    tune: bool = True


@dataclass(frozen=True)
class Turn:
    """What one turn made of the task."""

    stage: str
    """`frontend`, `midend`, `backend`, `tune` or `again`."""
    number: int
    kind: Literal["translate", "repair", "improve", "tune", "again"]
    rollouts: Sequence[Rollout]
    best: Rollout | None
    """The best verified kernel after this turn, its own or handed on."""
    improved: bool
    elapsed: float
    """Seconds since the search began."""

    @property
    def correct(self) -> int:
        return sum(rollout.verdict.correct for rollout in self.rollouts)

    def summary(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "number": self.number,
            "kind": self.kind,
            "samples": len(self.rollouts),
            "correct": self.correct,
            "improved": self.improved,
            "speedup": self.best.verdict.speedup() if self.best else None,
            "elapsed": self.elapsed,
        }


class Watch:
    """Told of what happens; this one keeps quiet."""

    def begin(self, stage: str, number: int, kind: str, samples: int) -> None:
        """A turn begins; `samples` is how many candidates it may make."""

    def heard(self, verdict: Verdict) -> None:
        """From any thread: one verdict is known."""

    def end(self, turn: Turn) -> None:
        """A turn is over."""


@dataclass
class Found:
    """A search and what came of it."""

    task: Task
    turns: list[Turn] = field(default_factory=list)
    best: Rollout | None = None
    """The winner with the verdict of its second hearing; None when nothing stood both."""

    @property
    def rollouts(self) -> list[Rollout]:
        """All that was judged the first time."""
        return [rollout for turn in self.turns if turn.stage != "again" for rollout in turn.rollouts]

    def gain(self, baseline: str = "eager") -> float | None:
        """Baseline time over the winner's."""
        return self.best.verdict.speedup(baseline) if self.best else None


def agents_of(spec: str, target: str = "") -> dict[Agent, str]:
    """Which policy answers for which agent.

    A run folder that `train` wrote has a checkpoint for each stage that it trained (sft stands in for a missing
    front end). Anything else plays front end and mid-end, and the back end too when a `target` is named. Raises UserError
    where there is no such model.
    """
    check_default(spec)
    stages = Path(spec).expanduser() / "stages"
    if spec == "default" or not stages.is_dir():
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


def optimize(
    task: Task,
    policies: Mapping[Agent, str],
    run: RunFolder,
    judge: Callable[[], AbstractContextManager[Verifier]],
    settings: Settings | None = None,
    *,
    watch: Watch | None = None,
    resume: bool = False,
    load: Callable[[str], Policy] = load_policy,
) -> Found:
    """Search, then hear the winner again. `judge` opens a judge with secrets of its own, each time it is called.

    `run` gets config.json, environment.json, rollouts.jsonl, turns.jsonl and metrics.json. Raises InfrastructureError
    when the judge fails on every sample of a turn, UserError for a broken task.
    """
    settings = settings or Settings()
    config = {"task": task.model_dump(mode="json"), "policies": dict(policies), **vars(settings)}
    run.start(config, resume=resume)
    with judge() as verifier:
        search = _Search(task, policies, run, verifier, settings, watch or Watch(), load)
        search.run()
    if search.leading:
        with judge() as verifier:
            search.again(verifier)
    found = search.found
    summary = {"task": task.id, "turns": [turn.summary() for turn in found.turns], "speedup": found.gain()}
    run.write_json("metrics.json", summary)
    return found


def write_result(best: Rollout, out: Path) -> Path:
    """Write the kernel to `out`, byte for byte what was verified, and its verdict beside it. Returns the latter."""
    write_text(out, best.candidate.code)
    return write_text(out.with_suffix(".verdict.json"), best.verdict.model_dump_json(indent=2) + "\n")


class _Search:
    """One search under way. Turns that the run folder holds are taken from there instead of being made again."""

    def __init__(
        self,
        task: Task,
        policies: Mapping[Agent, str],
        run: RunFolder,
        verifier: Verifier,
        settings: Settings,
        watch: Watch,
        load: Callable[[str], Policy],
    ) -> None:
        self.task, self.policies, self.folder, self.settings = task, policies, run, settings
        self.watch, self.load = watch, load
        self.found = Found(task)
        self.leading: Rollout | None = None
        """The fastest verified kernel so far."""
        self._loaded: tuple[str, Policy] | None = None
        made = {(row["stage"], row["number"]): row for row in run.lines("turns.jsonl")}
        run.keep_rows("rollouts.jsonl", lambda row: (row["stage"], row["step"]) in made)
        self._made = made
        self._logged = run.rows("rollouts.jsonl", Rollout)
        spent = len([r for r in self._logged if r.candidate.code and r.stage != "again"])
        elapsed = max((row["elapsed"] for row in made.values()), default=0.0)
        budget = Budget(settings.verdicts, settings.seconds, spent, elapsed)
        self.hearings = Hearings(verifier, budget, watch.heard)

    def run(self) -> None:
        """Every turn but the last."""
        for agent in AGENTS:
            if agent not in self.policies or (self.leading is None and agent != "frontend"):
                continue
            for number in range(self.settings.turns):
                turn = self._ask(agent, number)
                if turn is None:
                    if agent == "frontend" and number == 0:
                        continue  # of the rest of the budget there may be room
                    break
                if turn.correct > 0 if agent == "frontend" else not turn.improved:
                    break
        if self.settings.tune and self.leading is not None:
            self._tune()

    def again(self, verifier: Verifier) -> None:
        """Hear the winners again, the fastest first, until one is accepted: `found.best`."""
        others = [r for r in verified(self.found.rollouts) if r is not self.leading]
        for number, first in enumerate([*filter(None, [self.leading]), *others][:_AGAIN]):
            rows = self._known("again", number)
            if rows is None:
                self.watch.begin("again", number, "again", 1)
                verdict = verifier.submit(self.task, first.candidate).result()
                self.watch.heard(verdict)
                rows = [first.model_copy(update={"stage": "again", "step": number, "verdict": verdict})]
                _check_judge("again", rows)
            accepted = rows[0] if rows[0].verdict.correct else None
            turn = self._close("again", number, "again", rows, accepted)
            if turn.best is not None:
                self.found.best = turn.best
                return

    def _ask(self, agent: Agent, number: int) -> Turn | None:
        """One turn of an agent; None where the budget leaves no room for it."""
        settings = self.settings
        share = 1.0 if self.leading is None and number else _SHARES[agent]
        rows, kind = self._known(agent, number), self._made.get((agent, number), {}).get("kind")
        if rows is None:
            room = min(settings.samples, self.hearings.budget.room(share))
            if room < 1:
                return None
            policy = self._policy(self.policies[agent])
            asking = Asking(
                self.task, style_of(policy), settings.target, settings.max_tokens, fitting(policy)
            )
            kind, asked = asking.prompts(agent, self.found.rollouts, room)
            if not asked:
                return None
            self.watch.begin(agent, number, kind, room)
            rows = self._roll(policy, agent, number, asked, room, share)
            if not rows:
                return None
        return self._close(agent, number, kind, rows)

    def _roll(
        self, policy: Policy, agent: Agent, number: int, asked: list[Prompt], room: int, share: float
    ) -> list[Rollout]:
        each = max(1, room // len(asked))
        rolling = Rolling(
            policy,
            asked,
            [self.task] * len(asked),
            self.hearings,
            reward="wright",
            stage=agent,
            step=number,
        )
        with self.hearings.until(share):
            rolling.generate(
                each,
                temperature=self.settings.temperature,
                top_p=1.0,
                seed=self.settings.seed + 1000 * number,
            )
            rows = [rollout for group in rolling.collect() for rollout in group]
        rows = self.hearings.kept(rows)
        _check_judge(agent, rows)
        return rows

    def _tune(self) -> None:
        """Waves of variants of the fastest kernel, each a turn."""
        numbers = iter(range(1 << 30))

        def hear(variants: Sequence[Candidate]) -> list[Rollout]:
            number = next(numbers)
            rows = self._known("tune", number)
            if rows is None:
                variants = variants[: self.hearings.budget.room()]
                if not variants:
                    return []
                self.watch.begin("tune", number, "tune", len(variants))
                rows = self._judge(variants, number)
                if not rows:
                    return []
            self._close("tune", number, "tune", rows)
            return rows

        assert self.leading is not None
        tune(self.leading, hear)

    def _judge(self, variants: Sequence[Candidate], number: int) -> list[Rollout]:
        """Variants as rollouts of the tuner."""
        content = f"block sizes, warps and stages for {self.settings.target}"
        prompt = Prompt(
            task_id=self.task.id,
            agent="backend",
            messages=(Message(role="user", content=content),),
            max_tokens=1,
        )
        rolling = Rolling(
            _TUNER, [prompt], [self.task], self.hearings, reward="wright", stage="tune", step=number
        )
        with self.hearings.until(1.0):
            for sample, variant in enumerate(variants):
                text = prompts.completion_text(variant.plan, variant.code)
                rolling.hear(0, sample, Completion(text=text, policy=_TUNER.name))
            [rows] = rolling.collect()
        return self.hearings.kept(rows)

    def _policy(self, spec: str) -> Policy:
        if self._loaded is None or self._loaded[0] != spec:
            self._loaded = spec, self.load(spec)
        return self._loaded[1]

    def _known(self, stage: str, number: int) -> list[Rollout] | None:
        """The rollouts of a turn that an earlier process finished."""
        if (stage, number) not in self._made:
            return None
        return [r for r in self._logged if (r.stage, r.step) == (stage, number)]

    def _close(
        self, stage: str, number: int, kind: Any, rows: list[Rollout], best: Rollout | None = None
    ) -> Turn:
        """Log a turn and tell of it."""
        given = self.leading
        if stage != "again":
            best = next(iter(verified(rows)), None)
            beats = worth_it if stage == "tune" else faster
            better = best is not None and (given is None or beats(best.verdict.timing, given.verdict.timing))
            best = self.leading = best if better else given
        logged = self._made.get((stage, number))
        elapsed = logged["elapsed"] if logged else round(self.hearings.budget.elapsed, 2)
        turn = Turn(stage, number, kind, rows, best, best is not given, elapsed)
        self.found.turns.append(turn)
        if logged is None:
            self.folder.append("rollouts.jsonl", rows)
            self.folder.append("turns.jsonl", [turn.summary()])
        self.watch.end(turn)
        return turn


class _Tuner:
    """Who speaks for the tuner in the log."""

    name = "tuner"

    def generate(self, *args: Any, **options: Any) -> list[list[Completion]]:
        raise NotImplementedError("the tuner's variants are handed in")

    def pieces(self, completion: Completion) -> None:
        return None


_TUNER = _Tuner()


def furthest(found: Found) -> Rollout | None:
    """The kernel that came furthest without standing both hearings; where none has code, any attempt."""
    again = [rollout for turn in found.turns if turn.stage == "again" for rollout in turn.rollouts]
    return next(iter([*again, *rejected(found.rollouts), *found.rollouts]), None)


def _check_judge(agent: str, rollouts: Sequence[Rollout]) -> None:
    failed = [r for r in rollouts if r.verdict.outcome is Outcome.INFRASTRUCTURE_ERROR]
    if rollouts and len(failed) == len(rollouts):
        raise InfrastructureError(
            f"{agent}: the verifier failed on all {len(failed)} samples ({failed[0].verdict.detail}); "
            "see kernelwright doctor"
        )
