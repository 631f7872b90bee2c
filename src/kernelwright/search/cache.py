"""The kernel cache: verified kernels and failed attempts by graph, on disk and shared between processes.

One entry per (graph, precision, target, contractions, protocol, versions): the best verified kernel so far and each rung's
result. A write takes a lock, merges with what other processes wrote, and renames into place. An entry that is unreadable or of
another format is ignored with one line on stderr, and rewritten.

Does not guarantee that a kernel is right: it holds what a judge said. It holds code that is executed: share a folder only
with people you trust.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.records import Record, Verdict
from kernelwright.runs import environment
from kernelwright.verify.store import default_folder

FORMAT = 1
"""Version of the entries' format; entries of another are ignored."""

Rung = Literal["cache", "user", "compiler", "library", "model", "midend", "backend", "tune"]


SELECTABLE: tuple[str, ...] = ("compiler", "library", "model", "tune")
"""Rungs that can be selected by name, in order."""


def check_rungs(given: str | Sequence[str]) -> tuple[str, ...]:
    """The names of rungs, given one by one or with commas. Raises UserError for an unknown one."""
    names = tuple(filter(None, given.split(",") if isinstance(given, str) else given))
    for name in names:
        if name not in SELECTABLE:
            raise UserError(f"unknown rung {name!r}; valid: {', '.join(SELECTABLE)}")
    return names


class Row(Record):
    """One distinct group of a module, for the table."""

    number: int
    operators: str
    count: int
    """Number of occurrences."""
    share: float
    """Share of the module's modelled time in eager mode, all occurrences together."""
    rung: str = "aten"
    """Source of its kernel; `aten` if none is used."""
    ms: float | None = None
    over_eager: float | None = None
    over_compile: float | None = None
    detail: str = ""
    """Why no kernel is used."""


class Answer(Record):
    """A verified kernel for a graph."""

    graph: str
    """The graph's digest."""
    rung: Rung
    """Source of the kernel."""
    code: str
    """Defines `kernel(...)` on the graph's arguments, or for a whole module `run(...)`, which returns a tuple."""
    verdict: Verdict
    rows: tuple[Row, ...] = ()
    """The groups of a whole module."""

    @property
    def ms(self) -> float | None:
        """Modelled or measured time; None if untimed."""
        return self.verdict.timing.candidate_ms if self.verdict.timing else None


class Entry(Record):
    """All cached results of a graph."""

    best: Answer | None = None
    tried: Mapping[str, str] = {}
    """Rung -> its result in one line; `verified` if it gave a kernel."""
    inductor_ms: float | None = None
    """Modelled time of Inductor's own kernels for the graph, if the judge accepted them."""

    def merged(self, other: Entry) -> Entry:
        """Both entries in one: the faster kernel and all attempts; this entry's wins where both tried a rung."""
        return Entry(
            best=faster_of(self.best, other.best),
            tried={**other.tried, **self.tried},
            inductor_ms=other.inductor_ms if self.inductor_ms is None else self.inductor_ms,
        )


def against_inductor(verdict: Verdict, inductor_ms: float | None) -> Verdict:
    """The verdict with torch.compile's modelled time raised to at least `inductor_ms`, that of Inductor's own kernels.

    The judge does not have these kernels and models torch.compile as if it fused everything fusible. A measured time stays.
    """
    timing = verdict.timing
    if inductor_ms is None or timing is None:
        return verdict
    if timing.kind != "modelled" or "compile" not in timing.baseline_ms:
        return verdict
    ratio = max(1.0, inductor_ms / timing.baseline_ms["compile"])
    low, high = timing.speedup_ci["compile"]
    fair = timing.model_copy(
        update={
            "baseline_ms": {**timing.baseline_ms, "compile": ratio * timing.baseline_ms["compile"]},
            "speedup_ci": {**timing.speedup_ci, "compile": (ratio * low, ratio * high)},
        }
    )
    return verdict.model_copy(update={"timing": fair})


class Key(BaseModel):
    """Everything that a kernel's verdict depends on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    graph: str
    form: Literal["kernel", "whole"] = "kernel"
    precision: str = "default"
    target: str = "h200"
    contractions: Literal["own", "auto"] = "own"
    protocol: str = "strict"
    """Rules of the verdict."""
    task: str = ""
    """Digest of the task that was judged, if it is more than the graph."""
    gpu: str = ""
    """The GPU it was timed on; empty if times are modelled."""
    versions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, graph: Graph, **facts: Any) -> Self:
        """The key of a graph under the installed versions."""
        return cls(graph=graph.digest, versions=tuple(sorted(versions().items())), **facts)


@functools.cache
def versions() -> Mapping[str, str]:
    """Installed versions that a verdict depends on."""
    found = environment()["versions"]
    return {name: found[name] for name in ("torch", "triton") if name in found}


def faster_of(one: Answer | None, other: Answer | None) -> Answer | None:
    """The faster of two answers; the first if a time is unknown for both."""
    if one is None or other is None:
        return one or other
    if one.ms is None or other.ms is None:
        return one if other.ms is None else other
    return other if other.ms < one.ms else one


class KernelCache:
    """Entries in a folder, or only in memory if `folder` is None."""

    @classmethod
    def of(cls, place: bool | str | Path = True) -> Self:
        """The cache in a folder; True: the user's default folder, False: in memory. Raises UserError for anything else."""
        if not isinstance(place, bool | str | Path):
            raise UserError(f"cache is {place!r}; give a folder, True for the user's own, or False")
        if not isinstance(place, bool) and Path(place).is_file():
            raise UserError(f"cache is {str(place)!r}, a file; give a folder")
        if place is False:
            return cls(None)
        return cls(default_folder() / "kernels" if place is True else Path(place))

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: dict[Key, Entry] = {}
        self._told: set[str] = set()

    @property
    def empty(self) -> bool:
        """Whether there are no entries."""
        return not self._memory and (self.folder is None or next(self.folder.glob("*.json"), None) is None)

    def get(self, key: Key) -> Entry | None:
        """The entry of a key, or None. Takes milliseconds the first time, then microseconds."""
        known = self._memory.get(key)
        if known is None and self.folder is not None:
            known = self._read(key)
            if known is not None:
                self._memory[key] = known
        return known

    def put(self, key: Key, entry: Entry) -> Entry:
        """Merge an entry into the cache; returns the merged one. Warns once if the folder cannot be written."""
        before = self._memory.get(key)
        known = entry.merged(before) if before else entry
        if self.folder is not None:
            try:
                with self._lock(key):
                    theirs = self._read(key)
                    known = known.merged(theirs) if theirs else known
                    self._write(key, known)
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno else str(error)
                self._tell(
                    "write",
                    f"{self.folder}: {reason}; kernels are not kept for the next time (set KERNELWRIGHT_CACHE to a folder with room)",
                )
        self._memory[key] = known
        return known

    def _path(self, key: Key) -> Path:
        assert self.folder is not None
        return self.folder / f"{hashlib.sha256(key.model_dump_json().encode()).hexdigest()[:32]}.json"

    def _read(self, key: Key) -> Entry | None:
        path = self._path(key)
        try:
            found = parse_entry(path.read_text(encoding="utf-8"), key)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            found = f"cannot be read ({type(error).__name__})"
        if isinstance(found, Entry):
            return found
        self._tell(path.name, f"kernel cache: {path} {found}, and is left out; it will be written anew")
        return None

    def _write(self, key: Key, entry: Entry) -> None:
        path = self._path(key)
        body = {"format": FORMAT, "key": key.model_dump(mode="json"), "entry": entry.model_dump(mode="json")}
        fresh = path.with_name(f".{path.stem}.{secrets.token_hex(8)}")
        try:
            fresh.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
            fresh.replace(path)
        finally:
            fresh.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _lock(self, key: Key) -> Iterator[None]:
        """Serialise writers of an entry; the lock ends with its process."""
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._path(key).with_suffix(".lock")
        with path.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _tell(self, cause: str, line: str) -> None:
        if cause not in self._told:
            self._told.add(cause)
            print(line, file=sys.stderr)


def parse_entry(text: str, key: Key) -> Entry | str:
    """Parse a file: the entry, or what is wrong with it."""
    try:
        body = json.loads(text)
    except ValueError as error:
        return f"cannot be read ({type(error).__name__})"
    version = body.get("format", "none") if isinstance(body, dict) else "none"
    if version != FORMAT:
        return f"is of format {version}, not {FORMAT}"
    try:
        named, entry = Key.model_validate(body.get("key")), Entry.model_validate(body.get("entry"))
    except ValidationError:
        return "is damaged"
    if named != key:
        return "is for another kernel"
    if entry.best is not None and (not entry.best.verdict.correct or entry.best.graph != key.graph):
        return "holds a kernel that was not accepted for this graph"
    return entry
