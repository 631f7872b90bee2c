"""Makes a corpus in parts, so that a run can resume and machines can share it: each chunk of problems has its own files.

    DIR/parts/pairs-000012.jsonl            accepted kernels, as `Pair`; in `practice-...`, only tasks
    DIR/parts/pairs-000012.rejected.jsonl   rejected kernels, as `Refused`, with verdicts
    DIR/parts/pairs-000012.survivors.jsonl  kernels with a planted fault that the judge accepted, for human review
    DIR/parts/pairs-000012.done.json        counts and seconds; written last, so a chunk without it is made again

Problems depend only on settings and number, so chunks may be made by any process, in any order, any number of times. With a
given verifier, its workers share the chunks; otherwise there is one process per core, each with its own judge.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from kernelwright.children import Helper
from kernelwright.data.decide import ask, decide
from kernelwright.data.problems import Problem, Skipped, problem
from kernelwright.data.settings import CorpusSettings
from kernelwright.data.streams import Progress, silent
from kernelwright.errors import InfrastructureError
from kernelwright.records import Record, Task
from kernelwright.runs import write_records, write_text
from kernelwright.tasks import load_suite

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier

LIVES = 3
"""Processes tried for each worker; when the last one dies, the run fails."""


class Chunk(BaseModel):
    """The problems from `start` up to, but excluding, `stop`."""

    kind: Literal["pairs", "practice"]
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.start:06d}"


def chunks(settings: CorpusSettings) -> list[Chunk]:
    """All chunks of a corpus."""
    counts: tuple[tuple[Literal["pairs", "practice"], int], ...] = (
        ("practice", settings.practice),
        ("pairs", settings.graphs),
    )
    return [
        Chunk(kind=kind, start=start, stop=min(count, start + settings.chunk))
        for kind, count in counts
        for start in range(0, count, settings.chunk)
    ]


def make_chunk(
    settings: CorpusSettings,
    chunk: Chunk,
    parts: Path,
    verifier: Verifier | None,
    tasks: Sequence[Task] = (),
    pricing: Verifier | None = None,
) -> None:
    """Make one chunk and write its files. Raises InfrastructureError if the judge fails. `pricing`: see `decide.ask`."""
    start, counts = time.perf_counter(), Counter[str]()
    problems: list[Problem] = []
    for number in range(chunk.start, chunk.stop):
        try:
            problems.append(problem(settings, number, tasks, practice=chunk.kind == "practice"))
        except Skipped as reason:
            counts[f"skipped: {reason}"] += 1
    counts[f"graphs: {chunk.kind}"] += len(problems)
    made: list[Record] = [one.task for one in problems] if chunk.kind == "practice" else []
    refused: list[Record] = []
    survivors: list[Record] = []
    if chunk.kind == "pairs":
        assert verifier is not None
        for pending in [ask(one, verifier, pricing) for one in problems]:
            decided = decide(settings, pending)
            made += decided.pairs
            refused += decided.refused
            survivors += decided.survivors
            counts.update(decided.counts)
    write_records(parts / f"{chunk.name}.jsonl", made)
    write_records(parts / f"{chunk.name}.rejected.jsonl", refused)
    if survivors:
        write_records(parts / f"{chunk.name}.survivors.jsonl", survivors)
    record = {"counts": dict(counts), "seconds": round(time.perf_counter() - start, 2)}
    write_text(parts / f"{chunk.name}.done.json", json.dumps(record))


def make_parts(
    settings: CorpusSettings,
    folder: Path,
    workers: int,
    verifier: Verifier | None = None,
    progress: Progress = silent,
    pricing: Verifier | None = None,
) -> None:
    """Make every missing chunk. Raises InfrastructureError if worker after worker dies."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    everything = chunks(settings)
    missing = [one for one in everything if not (parts / f"{one.name}.done.json").exists()]
    done = len(everything) - len(missing)
    lock = threading.Lock()

    def count() -> None:
        nonlocal done
        with lock:
            done += 1
            progress("judge", done * settings.chunk, len(everything) * settings.chunk)

    if verifier is not None:
        tasks = tasks_of(settings)
        for chunk in missing:
            make_chunk(settings, chunk, parts, verifier, tasks, pricing)
            count()
    elif missing:
        _share(settings, parts, missing, min(workers, len(missing)), count)


def tasks_of(settings: CorpusSettings) -> list[Task]:
    """The harvested tasks in function form; empty without `settings.tasks`."""
    return [task for task in load_suite(settings.tasks) if task.graph] if settings.tasks else []


class ChunkWorker(Helper):
    """A process that makes chunks; it runs `worker.py`."""

    def __init__(self, settings: CorpusSettings, parts: Path) -> None:
        super().__init__(
            "kernelwright.data.worker", settings.model_dump_json(), str(parts), does="makes pairs"
        )


def _share(
    settings: CorpusSettings, parts: Path, missing: list[Chunk], workers: int, count: Callable[[], None]
) -> None:
    """Make the remaining chunks in `workers` processes, each watched by a thread."""
    waiting: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
    for part in missing:
        waiting.put(part)
    stop = threading.Event()
    processes: list[ChunkWorker] = []

    def watch() -> None:
        for more in reversed(range(LIVES)):
            with ChunkWorker(settings, parts) as process:
                processes.append(process)
                try:
                    return _make_all(process, waiting, stop, count)
                except InfrastructureError:
                    if stop.is_set() or not more:
                        raise

    with ThreadPoolExecutor(workers) as threads:
        futures = [threads.submit(watch) for _ in range(workers)]
        try:
            ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()
        finally:
            stop.set()
            for process in processes:
                process.__exit__()


def _make_all(
    process: ChunkWorker, waiting: queue.SimpleQueue[Chunk], stop: threading.Event, count: Callable[[], None]
) -> None:
    """Make chunks until none is waiting. If the process dies, requeues its chunk and raises InfrastructureError."""
    while not stop.is_set():
        try:
            part = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            process.ask(part.model_dump())
        except InfrastructureError:
            waiting.put(part)
            raise
        count()


def summary(folders: Sequence[Path]) -> tuple[Counter[str], float]:
    """Total counts of all finished chunks, and the core-seconds they took."""
    total, seconds = Counter[str](), 0.0
    for path in (one for folder in folders for one in sorted((folder / "parts").glob("*.done.json"))):
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
        total.update(record["counts"])
        seconds += record["seconds"]
    return total, seconds


def parts_of(folder: Path, kind: str) -> Iterator[Path]:
    """The finished parts of a kind, ordered by name."""
    for path in sorted((folder / "parts").glob(f"{kind}-*.done.json")):
        yield path.with_name(path.name.replace(".done.json", ".jsonl"))
