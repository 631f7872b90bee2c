"""Reads run folders into what the page shows: runs, their stages, and each task's best attempt by stage.

Accepts incomplete folders: a run that was stopped, one without curves, an evaluation alone.
Does not judge or re-score: every number comes from the recorded verdicts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from kernelwright.config import STAGES
from kernelwright.errors import UserError
from kernelwright.metrics import summarise
from kernelwright.outcomes import Category, Outcome
from kernelwright.records import Rollout, read_jsonl

_DEPTH = {outcome: depth for depth, outcome in enumerate(Outcome)}
_OF_A_RUN = ("config.json", "curves.jsonl", "rollouts.jsonl", "found.json", "eval", "examples", "optimize")
"""Files that runs write; any one of them suffices for a page."""


@dataclass(frozen=True)
class Attempts:
    """One stage's attempts at one task: the best attempt, and how many were correct."""

    stage: str
    best: Rollout
    correct: int
    samples: int

    @property
    def category(self) -> str:
        return self.best.verdict.outcome.category.value


@dataclass(frozen=True)
class Stage:
    """One evaluated stage of one run."""

    label: str
    run: str
    rollouts: Sequence[Rollout]

    seconds: float | None = None
    """Wall-clock seconds that the run spent on this stage (training and evaluation), if recorded."""

    noted: Mapping[str, Any] = field(default_factory=dict)
    """The evaluation's metrics.json; a later agent's has `attempts` and `gain`, which rollouts alone do not show."""

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The figures, computed as for metrics.json."""
        return summarise(self.rollouts)

    @property
    def categories(self) -> dict[str, int]:
        """Samples by category, best first; only the categories that occur."""
        seen: dict[str, int] = self.summary["categories"]
        return dict(sorted(seen.items(), key=lambda item: item[0] != Category.CORRECT))

    @property
    def speedups(self) -> list[float]:
        """Speedup over eager of every correct sample that was timed."""
        return [s for r in self.rollouts if r.verdict.correct and (s := r.verdict.speedup()) is not None]

    @property
    def speedup(self) -> float | None:
        """Geometric mean of `speedups`."""
        mean: float | None = self.summary["speedup"]["eager"]["geometric_mean"]
        return mean


@dataclass(frozen=True)
class Found:
    """The ladder's result for one part of a module: a row of a search's found.json."""

    module: str
    operators: str
    rung: str
    ms: float | None
    over_eager: float | None
    over_compile: float | None


@dataclass(frozen=True)
class Run:
    """One run folder."""

    name: str
    path: Path
    config: dict[str, Any]
    environment: dict[str, Any]
    curves: list[dict[str, Any]]
    stages: list[Stage]
    notes: list[str] = field(default_factory=list)
    """What was missing or unreadable, to be shown on the page."""
    found: list[Found] = field(default_factory=list)
    """Results of all searches in the folder: its own, those of examples, the one after training."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall-clock seconds by part, in the order in which they ran."""


@dataclass(frozen=True)
class TaskRow:
    """One row of the task table."""

    id: str
    attempts: list[Attempts]
    """One per stage, in the order of the stages; stages that never saw the task are absent."""

    @property
    def last(self) -> Attempts:
        return self.attempts[-1]

    @property
    def speedup(self) -> float | None:
        """Best speedup over eager among all stages."""
        return max((s for a in self.attempts if (s := a.best.verdict.speedup()) is not None), default=None)

    @property
    def title(self) -> str:
        """The task's title, or its id if the log has no title."""
        return self.last.best.title or self.id

    @property
    def operators(self) -> list[str]:
        """The operators that its title names."""
        named = self.last.best.title.split(" ")[0]
        return [one for one in named.split("+") if one] if "/" not in named else []

    @property
    def dtype(self) -> str:
        return self.last.best.dtype

    @property
    def changed(self) -> bool:
        return len({a.best.verdict.outcome for a in self.attempts}) > 1


def read_run(path: Path, prefix: str = "") -> Run:
    """Read one run folder. Raises UserError only if it is not a folder or has no file of a run; anything else missing becomes a
    note."""
    if not path.is_dir():
        raise UserError(f"report: no run folder at {path}: give folders that train, eval or optimize wrote")
    if not any((path / name).exists() for name in _OF_A_RUN):
        raise UserError(
            f"report: nothing of a run is in {path}: give folders that train, eval or optimize wrote"
        )
    notes: list[str] = []
    stages = []
    folders = sorted((p for p in (path / "eval").glob("*") if p.is_dir()), key=lambda p: _stage_key(p.name))
    spent = _object(path / "seconds.json", notes)
    for folder in folders:
        if rollouts := _rollouts(folder / "rollouts.jsonl", notes):
            parts = [spent[part] for part in (folder.name, f"eval/{folder.name}") if part in spent]
            metrics = _object(folder / "metrics.json", notes)
            stages.append(
                Stage(prefix + folder.name, path.name, rollouts, sum(parts) if parts else None, metrics)
            )
    if not folders:
        by_stage: dict[str, list[Rollout]] = {}
        for rollout in _rollouts(path / "rollouts.jsonl", notes):
            by_stage.setdefault(rollout.stage or path.name, []).append(rollout)
        stages = [
            Stage(prefix + name, path.name, by_stage[name]) for name in sorted(by_stage, key=_stage_key)
        ]
    if not stages:
        notes.append(f"{path.name}: no evaluated samples yet")
    return Run(
        path.name,
        path,
        _object(path / "config.json", notes),
        _object(path / "environment.json", notes),
        _curves(path / "curves.jsonl", notes),
        stages,
        notes,
        _find(path, notes),
        {part: seconds for part, seconds in spent.items() if isinstance(seconds, int | float)},
    )


def _find(path: Path, notes: list[str]) -> list[Found]:
    """The rows of every search in a run folder."""
    places = [path, *sorted((path / "examples").glob("*")), path / "optimize"]
    rows = []
    for place in places:
        known = _object(place / "found.json", notes)
        for row in known.get("rows", ()):
            times = [row.get(key) for key in ("ms", "over_eager", "over_compile")]
            module = str(known.get("task", place.name)).removeprefix("file/")
            rows.append(Found(module, str(row.get("operators", "")), str(row.get("rung") or "none"), *times))
    return rows


def task_rows(stages: Iterable[Stage]) -> list[TaskRow]:
    """One row per task: each stage's best attempt (correct and fastest, else the one that passed most gates)."""
    table: dict[str, list[Attempts]] = {}
    for stage in stages:
        groups: dict[str, list[Rollout]] = {}
        for rollout in stage.rollouts:
            groups.setdefault(rollout.task_id, []).append(rollout)
        for task_id, group in groups.items():
            correct = sum(r.verdict.correct for r in group)
            table.setdefault(task_id, []).append(
                Attempts(stage.label, max(group, key=_rank), correct, len(group))
            )
    return [TaskRow(task_id, table[task_id]) for task_id in sorted(table)]


def _rank(rollout: Rollout) -> tuple[bool, float, int]:
    """Correct before wrong, then by speed, then by gates passed; attempts that could not be judged come last."""
    outcome = rollout.verdict.outcome
    return outcome.accepted, rollout.verdict.speedup() or 0.0, _DEPTH[outcome] if outcome.judged else -1


def _stage_key(name: str) -> tuple[int, str]:
    return (
        list(STAGES).index(name) if name in STAGES else -1 if name in ("base", "start") else len(STAGES)
    ), name


def _rollouts(path: Path, notes: list[str]) -> list[Rollout]:
    if not path.is_file():
        return []
    try:
        return list(read_jsonl(path, Rollout))
    except (UserError, OSError, UnicodeDecodeError) as error:
        notes.append(f"{path.parent.name}/{path.name} could not be read: {error}")
        return []


def _object(path: Path, notes: list[str]) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_text("utf-8"))
        return value if isinstance(value, dict) else {}
    except (ValueError, OSError) as error:
        notes.append(f"{path.name} could not be read: {error}")
        return {}


def _curves(path: Path, notes: list[str]) -> list[dict[str, Any]]:
    """Lines of curves.jsonl; unreadable lines are skipped and counted."""
    if not path.is_file():
        return []
    lines, bad = [], 0
    for text in path.read_text("utf-8", errors="replace").splitlines():
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if isinstance(value, dict):
            lines.append(value)
        else:
            bad += bool(text.strip())
    if bad:
        notes.append(f"{path.name}: {bad} unreadable lines passed over")
    return lines
