"""The noun `Archive`: all kernels ever judged for a graph, with plan, time and verdict.

    archive = Archive.read([path, other])          merged: one entry per (graph, target, precision, clock, code)
    archive.add(entries_of(rollouts, tasks))       adds the kernels of a run's log
    archive.write(path)                            JSONL, one line per entry; the first line of a graph has its task
    improvements(archive)                          pairs for the next round of training
    table(archive, known)                          best known schedules, in the form of `synth/best.json`

Code that the library's printer writes from a plan is not stored, only its digest, which shows if the printer has changed
since. Merging is commutative, so machines can exchange files in any order.

Times of two machines may not be comparable: `target` and `clock` say where they come from, and only entries that agree in
both are compared.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from kernelwright.errors import UserError
from kernelwright.graph.structure import structure
from kernelwright.graph.types import Graph
from kernelwright.hardware import target as sheet_of
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import (
    Candidate,
    Pair,
    PrecisionName,
    Record,
    Rollout,
    Shown,
    Task,
    Timing,
    Verdict,
    read_jsonl,
    write_jsonl,
)
from kernelwright.synth.library import key_of
from kernelwright.synth.plan import parse_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.program import Program
from kernelwright.synth.to_triton import label_of, print_triton, scheduled_part

LEAST_GAIN = 0.05
"""Least share of the time that an improvement must save; their intervals must not overlap."""
NEAR = 1.3
"""Kernels of a different character than the best are kept up to this many times its time."""
_MODEL_BAND = 0.02
"""Modelled times closer than this share count as equal."""
Clock = Literal["modelled", "measured"]
Key = tuple[str, str, str, str, str]


class Entry(Record):
    """One judged kernel: `Entry(graph=digest, plan="g1: softmax  nest row ...", digest=..., us=12.3, ...)`."""

    graph: str = Field(min_length=16)
    """Digest of the graph."""
    task: Task | None = None
    """The graph's task; only on the first line of a graph."""
    target: str
    precision: PrecisionName = "default"
    clock: Clock
    plan: str = ""
    code: str = ""
    """Empty if the printer reproduces it from the plan."""
    digest: str = Field(min_length=16)
    """Digest of the code."""
    outcome: Outcome = Outcome.CORRECT
    us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Microseconds of one call at full size; None if it was not timed."""
    interval: tuple[float, float] | None = None
    """95 % interval of `us`; None if unknown or modelled."""
    eager_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Microseconds of eager PyTorch in the same run."""
    modelled_us: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Microseconds by the cost model, next to measured ones."""
    source: str
    """Origin of the kernel: `library`, `search`, or a run with its stage."""

    @model_validator(mode="after")
    def _only_correct_is_timed(self) -> Self:
        if self.us is not None and not self.outcome.accepted:
            raise ValueError("a rejected kernel has no time")
        return self

    @property
    def key(self) -> Key:
        return self.graph, self.target, self.precision, self.clock, self.digest

    def span(self) -> tuple[float, float]:
        """The interval of the time, in microseconds."""
        assert self.us is not None
        if self.interval is not None:
            return self.interval
        return self.us * (1 - _MODEL_BAND / 2), self.us * (1 + _MODEL_BAND / 2)

    def beats(self, other: Entry) -> bool:
        """Whether it is faster than `other` by `LEAST_GAIN`, and beyond the noise of both."""
        assert self.us is not None
        assert other.us is not None
        return self.us <= (1 - LEAST_GAIN) * other.us and self.span()[1] < other.span()[0]


class Archive:
    """Entries by key, and their graphs' tasks."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[Key, Entry] = {}
        self.tasks: dict[str, Task] = {}
        self.add(entries)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> Archive:
        """All files merged. Raises UserError for one that is missing or not an archive."""
        archive = cls()
        for path in paths:
            if not path.is_file():
                raise UserError(f"no archive at {path}; make one with kernelwright archive add")
            archive.add(read_jsonl(path, Entry))
        return archive

    def add(self, entries: Iterable[Entry]) -> None:
        """Merge entries. For the same kernel, a rejection wins over an acceptance, then the narrower interval."""
        for entry in entries:
            if entry.task is not None:
                self.tasks.setdefault(entry.graph, entry.task)
                entry = entry.model_copy(update={"task": None})
            old = self._entries.get(entry.key)
            if old is None or _rank(entry) < _rank(old):
                self._entries[entry.key] = entry

    def write(self, path: Path) -> int:
        """Write all entries, sorted by graph and time, to a new file that takes the old one's place. Returns the number."""
        new = path.with_name(f"new-{path.name}")
        count = write_jsonl(new, self._lines())
        new.replace(path)
        return count

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def races(self) -> dict[tuple[str, str, str, str], list[Entry]]:
        """Comparable timed entries, fastest first, by (graph, target, precision, clock)."""
        found: dict[tuple[str, str, str, str], list[Entry]] = {}
        for entry in self:
            if entry.us is not None:
                found.setdefault(entry.key[:4], []).append(entry)
        return {
            key: sorted(some, key=lambda one: (one.us, one.digest)) for key, some in sorted(found.items())
        }

    def code_of(self, entry: Entry) -> str | None:
        """The kernel's code; None if the graph's task is unknown, or the printer has changed since."""
        if entry.code:
            return entry.code
        task = self.tasks.get(entry.graph)
        if task is None:
            return None
        code = print_from_plan(Graph.model_validate_json(task.graph), entry.plan)
        return code if code is not None and code_digest(code) == entry.digest else None

    def _lines(self) -> Iterator[Entry]:
        seen: set[str] = set()
        for entry in sorted(self, key=lambda one: (one.key[:4], one.us or math.inf, one.digest)):
            first = entry.graph not in seen
            seen.add(entry.graph)
            yield entry.model_copy(update={"task": self.tasks.get(entry.graph)}) if first else entry


def code_digest(code: str) -> str:
    """Identity of a kernel's text: 16 hex digits."""
    return hashlib.sha256(code.strip().encode("utf-8", "surrogatepass")).hexdigest()[:16]


def print_from_plan(graph: Graph, plan: str) -> str | None:
    """The library's print of a one-line plan; None if it is not a plan of the graph."""
    try:
        _, schedule = parse_plan(plan)
        return print_triton(Program(graph=graph, schedule=schedule))
    except (UserError, Unsupported):
        return None


def entry_of(task: Task, plan: str, code: str, **fields: Any) -> Entry:
    """The entry of a kernel for a task in function form; `fields` are the entry's other fields."""
    graph = Graph.model_validate_json(task.graph)
    own = print_from_plan(graph, plan)
    same = own is not None and own.strip() == code.strip()
    return Entry(
        graph=graph.digest, task=task, plan=plan, code="" if same else code, digest=code_digest(code), **fields
    )  # fmt: skip


def entries_of(
    rollouts: Iterable[Rollout], tasks: Mapping[str, Task], target: str, source: str
) -> Iterator[Entry]:
    """Entries from a run's log: every judged candidate for a graph. `tasks` by id."""
    for rollout in rollouts:
        task, verdict, candidate = tasks.get(rollout.task_id), rollout.verdict, rollout.candidate
        if task is None or not task.graph or not candidate.code or not verdict.outcome.judged:
            continue
        timing = verdict.timing
        times: dict[str, Any] = {"clock": "modelled", "target": target}
        if timing is not None:
            times = {"clock": timing.kind, "target": timing.target, "us": 1e3 * timing.candidate_ms}
            times["eager_us"] = 1e3 * timing.baseline_ms["eager"]
            if timing.kind == "measured":
                times["interval"] = tuple(1e3 * end for end in timing.candidate_ci)
        yield entry_of(
            task,
            candidate.plan,
            candidate.code,
            outcome=verdict.outcome,
            source=f"{source}/{rollout.stage}",
            **times,
        )


def character(plan: str) -> tuple[Any, ...]:
    """The kind of kernel that a plan describes: all decisions that are not sizes, and whether work is split."""
    try:
        _, schedule = parse_plan(plan)
    except UserError:
        return (plan,)
    kinds = ((name, value) for name, value in schedule.model_dump().items() if isinstance(value, str | bool))
    return (*kinds, getattr(schedule, "split", 1) > 1, getattr(schedule, "split_k", 1) > 1)


def elite(race: list[Entry]) -> list[Entry]:
    """The fastest of a race, and the fastest of each other character within `NEAR` of it."""
    best: dict[tuple[Any, ...], Entry] = {}
    for entry in race:
        best.setdefault(character(entry.plan), entry)
    limit = NEAR * (race[0].us or math.inf) if race else 0.0
    return [entry for entry in best.values() if (entry.us or math.inf) <= limit]


def improvements(archive: Archive, *, shown: int = 3, held: frozenset[str] = frozenset()) -> Iterator[Pair]:
    """Pairs for the next round: each elite kernel as an answer to its graph, and the best as an improvement of slower ones.

    `shown`: slower kernels shown per race, spread over it. `held`: held-out structures, which give no pairs.
    """
    for (digest, target, precision, clock), race in archive.races().items():
        task = archive.tasks.get(digest)
        if task is None:
            continue
        graph = Graph.model_validate_json(task.graph)
        alike = structure(graph)
        if alike in held:
            continue
        shared: dict[str, Any] = {
            "task": task, "digest": digest, "structure": alike, "label": label_of(graph), "source": "archive",
            "precision": precision, "target": target, "clock": clock, "best_us": race[0].us,
        }  # fmt: skip
        for entry in elite(race):
            if code := archive.code_of(entry):
                yield Pair(plan=entry.plan, code=code, us=entry.us, writer=entry.source, **shared)
        best, code = race[0], archive.code_of(race[0])
        slower = [entry for entry in race if best.beats(entry)]
        for slow in slower[:: max(1, len(slower) // shown)][:shown] if code else ():
            if text := archive.code_of(slow):
                assert slow.us is not None
                profile = f"time: {slow.us / 1e3:.4g} ms {clock} on {target}"
                given = Shown(plan=slow.plan, code=text, feedback=profile, us=slow.us)
                row = {"plan": best.plan, "code": code, "us": best.us, "writer": best.source}
                yield Pair(kind="improve", shown=given, **row, **shared)


def verdicts(
    archive: Archive, target: str, clock: Clock, missing: bool = False
) -> Callable[[Task, Candidate], Verdict | None]:
    """Verdicts from the archive, for `rollouts.Judge(memory=...)`; None for kernels that it lacks.

    Accepted kernels without a time, own or eager, count as lacking. With `missing`, nothing is ever judged: lacking kernels are
    `unsupported`, which gives no reward, so that recorded times replay without a judge.
    """
    known = {(one.graph, one.digest): one for one in archive if (one.target, one.clock) == (target, clock)}

    def remember(task: Task, candidate: Candidate) -> Verdict | None:
        if candidate.problem is not None and missing:
            broken = {"outcome": candidate.problem, "gate": Gate.PARSE, "detail": candidate.detail}
            return Verdict(task_id=task.id, candidate_digest=candidate.digest, **broken)
        if not task.graph or candidate.problem is not None:
            return None
        graph = Graph.model_validate_json(task.graph).digest
        entry = known.get((graph, code_digest(candidate.code)))
        if entry is None or (entry.outcome.accepted and not (entry.us and entry.eager_us)):
            gone = {"outcome": Outcome.UNSUPPORTED, "gate": Gate.PARSE, "detail": "not in the archive"}
            return Verdict(task_id=task.id, candidate_digest=candidate.digest, **gone) if missing else None
        return _verdict(task, candidate, entry)

    return remember


def _verdict(task: Task, candidate: Candidate, entry: Entry) -> Verdict:
    timing = None
    if entry.outcome.accepted:
        assert entry.us is not None
        assert entry.eager_us is not None
        low, high = entry.span()
        timing = Timing(
            kind=entry.clock,
            target=entry.target,
            candidate_ms=entry.us / 1e3,
            candidate_ci=(low / 1e3, high / 1e3),
            baseline_ms={"eager": entry.eager_us / 1e3},
            speedup_ci={"eager": (entry.eager_us / high, entry.eager_us / low)},
        )
    return Verdict(
        task_id=task.id,
        outcome=entry.outcome,
        gate=Gate.TIMING,
        detail="as recorded",
        timing=timing,
        candidate_digest=candidate.digest,
        backend="cuda" if entry.clock == "measured" else "interpret",
    )


def table(archive: Archive, known: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Best schedules by the library's key and the target's architecture: those of `known`, plus each measured race's."""
    found = {key: dict(row) for key, row in known.items()}
    for (digest, target, _, clock), race in archive.races().items():
        task = archive.tasks.get(digest)
        if clock != "measured" or task is None:
            continue
        source, nest = scheduled_part(Graph.model_validate_json(task.graph))
        planned = next((one for one in race if not one.code), None)
        if planned is not None:
            _, schedule = parse_plan(planned.plan)
            found.setdefault(key_of(source, nest), {})[sheet_of(target).arch] = schedule.model_dump()
    return found


def _rank(entry: Entry) -> tuple[bool, float, bool, str]:
    """Merging keeps the lowest rank: rejections first, then narrow intervals, then entries with a modelled time, too."""
    width = math.inf if entry.us is None else (entry.span()[1] - entry.span()[0]) / entry.us
    accepted = entry.outcome.accepted
    return accepted, width if accepted else 0.0, entry.modelled_us is None, entry.model_dump_json()
