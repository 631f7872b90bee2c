"""The kernel cache: what was verified for a graph before, and what was tried in vain, on disk and shared by processes.

One entry a (graph, precision, target, contractions, protocol, versions): the best verified kernel so far and, per rung, what came
of it. Entries appear by rename under a lock, and a write merges with what another process wrote meanwhile. An entry that
cannot be read, or is of another version, is left out with one line on stderr, and written anew.

Does not guarantee that a kernel is right: it holds what a judge said. It holds code that is executed: share a folder only
with whom you trust.
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
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.records import Record, Verdict
from kernelwright.runs import environment
from kernelwright.verify.store import default_folder

FORMAT = 1
"""Of the entries; others are left out."""

Rung = Literal["cache", "user", "compiler", "library", "model", "midend", "backend", "tune"]


class Row(Record):
    """One distinct group of a module, for the table."""

    number: int
    operators: str
    count: int
    """How often it occurs."""
    share: float
    """Of the module's time in eager mode, all occurrences together, modelled."""
    rung: str = "aten"
    """Who wrote its kernel; `aten` where none is used."""
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
    """Who wrote it."""
    code: str
    """Defines `kernel(...)` on the graph's arguments; for a whole module `run(...)`, which returns a tuple."""
    verdict: Verdict
    rows: tuple[Row, ...] = ()
    """Of a whole module: its groups."""

    @property
    def ms(self) -> float | None:
        """Its time, modelled or measured."""
        return self.verdict.timing.candidate_ms if self.verdict.timing else None


class Entry(Record):
    """All that is known of a graph."""

    best: Answer | None = None
    tried: Mapping[str, str] = {}
    """Rung -> what came of it, in one line; `verified` where it gave a kernel."""
    inductor_ms: float | None = None
    """What Inductor's own kernels for the graph take by the cost model, where the judge found them right."""

    def merged(self, other: Entry) -> Entry:
        """Both: the faster kernel, and what was tried by either, this one's word first."""
        return Entry(
            best=faster_of(self.best, other.best),
            tried={**other.tried, **self.tried},
            inductor_ms=other.inductor_ms if self.inductor_ms is None else self.inductor_ms,
        )


def against_inductor(verdict: Verdict, inductor_ms: float | None) -> Verdict:
    """The verdict with torch.compile's modelled time no less than what Inductor's own kernels take by the same model.

    The judge models torch.compile as if it fused whatever could be, without having its kernels. A measured time stays.
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
    """What a kernel's verdict hangs on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    graph: str
    form: Literal["kernel", "whole"] = "kernel"
    precision: str = "default"
    target: str = "h200"
    contractions: Literal["own", "auto"] = "own"
    protocol: str = "strict"
    """The rules that it was judged by."""
    task: str = ""
    """Digest of the task that it was judged on, where that is more than the graph."""
    gpu: str = ""
    """The GPU that it was measured on; empty where it was modelled."""
    versions: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, graph: Graph, **facts: Any) -> Self:
        """Of a graph, with the versions that are installed."""
        return cls(graph=graph.digest, versions=tuple(sorted(versions().items())), **facts)


@functools.cache
def versions() -> Mapping[str, str]:
    """What a kernel's verdict depends on."""
    found = environment()["versions"]
    return {name: found[name] for name in ("torch", "triton") if name in found}


def faster_of(one: Answer | None, other: Answer | None) -> Answer | None:
    """The one that takes less time; the first where that is not known."""
    if one is None or other is None:
        return one or other
    if one.ms is None or other.ms is None:
        return one if other.ms is None else other
    return other if other.ms < one.ms else one


class KernelCache:
    """Entries in a folder; without one, in memory only."""

    @classmethod
    def of(cls, place: bool | str | Path = True) -> Self:
        """A folder's; True: this user's own, False: none. Raises UserError for anything else."""
        if not isinstance(place, bool | str | Path):
            raise UserError(f"cache is {place!r}; give a folder, True for the user's own, or False")
        if place is False:
            return cls(None)
        return cls(default_folder() / "kernels" if place is True else Path(place))

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._memory: dict[Key, Entry] = {}
        self._told: set[str] = set()

    @property
    def empty(self) -> bool:
        """Whether nothing is known of any graph."""
        return not self._memory and (self.folder is None or next(self.folder.glob("*.json"), None) is None)

    def get(self, key: Key) -> Entry | None:
        """What is known of a key, or None. Milliseconds the first time, then microseconds."""
        known = self._memory.get(key)
        if known is None and self.folder is not None:
            known = self._read(key)
            if known is not None:
                self._memory[key] = known
        return known

    def put(self, key: Key, entry: Entry) -> Entry:
        """Add to what is known of a key; what is known then. Says once where a folder cannot be written."""
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
        """One writer an entry; the lock ends with its process."""
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
    """The entry in a file, or what is wrong with the file."""
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
