"""Every core at once: a process a core with a judge of its own, and a file a chunk, so that any run can go on.

    DIR/parts/families-00012.jsonl            what was accepted, as `Entry`
    DIR/parts/families-00012.rejected.jsonl   what was not, as `Rejected`, with its verdict
    DIR/parts/families-00012.done.json        counts and seconds: written last, so a chunk without it is made again

Problems hang on their numbers alone, so it does not matter who makes which chunk, or how often.
"""

from __future__ import annotations

import json
import queue
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kernelwright.children import Helper
from kernelwright.data.bulk.config import TEACHERS, BulkConfig, Teacher
from kernelwright.data.corpus import Progress
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.records import Example, read_jsonl
from kernelwright.runs import RunFolder, write_text
from kernelwright.tasks import load_suite

LIVES = 3
"""Processes that may follow one another in the place of one; with the last of them the run dies."""


class Chunk(BaseModel):
    """Problems `start` to `stop` of a teacher."""

    teacher: Teacher
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.teacher}-{self.start:06d}"


class WorkerProcess(Helper):
    """A process that makes chunks, as who asks it sees it: `worker.py` is what runs there."""

    def __init__(self, config: BulkConfig, parts: Path) -> None:
        super().__init__(
            "kernelwright.data.bulk.worker", config.model_dump_json(), str(parts), does="makes examples"
        )

    def make(self, chunk: Chunk) -> dict[str, Any]:
        """The chunk's counts. Raises InfrastructureError when the process has died."""
        return dict(self.ask(chunk.model_dump()))


def chunks(config: BulkConfig, tasks: int, examples: int) -> list[Chunk]:
    """All of a corpus, the teachers mixed, so that the time left can be told from the time gone."""
    found: list[tuple[float, Chunk]] = []
    for teacher, count in config.counts(tasks, examples).items():
        for start in range(0, count, config.chunk):
            part = Chunk(teacher=teacher, start=start, stop=min(count, start + config.chunk))
            found.append((start / count, part))
    return [part for _, part in sorted(found, key=lambda item: (item[0], TEACHERS.index(item[1].teacher)))]


def make(config: BulkConfig, folder: Path, workers: int, progress: Progress | None = None) -> Counter[str]:
    """Hear every problem of `config`, going on where a stopped run left off. Returns what the chunks counted.

    Raises UserError when the folder holds another corpus, InfrastructureError when worker after worker dies.
    """
    run = RunFolder(folder)
    run.start(config, resume=True)
    parts = run.sub("parts").path
    tasks = load_suite(config.tasks) if config.tasks else []
    examples = list(read_jsonl(_file(config.examples), Example)) if config.examples else []
    for name, records in (("tasks", tasks), ("examples", examples)):
        if records and not (parts / f"{name}.list").exists():
            write_text(parts / f"{name}.list", "".join(item.model_dump_json() + "\n" for item in records))
    everything = chunks(config, len(tasks), len(examples))
    total = sum(part.stop - part.start for part in everything)
    left = [part for part in everything if not (parts / f"{part.name}.done.json").exists()]
    done = total - sum(part.stop - part.start for part in left)
    if left:
        _share(config, parts, left, min(workers, len(left)), _Told(progress, done, total))
    return Counter({name: int(count) for name, count in summary(folder).items()})


class _Told:
    """Progress, from many threads."""

    def __init__(self, progress: Progress | None, done: int, total: int) -> None:
        self.progress, self.done, self.total = progress, done, total
        self._lock = threading.Lock()

    def __call__(self, count: int) -> None:
        with self._lock:
            self.done += count
            if self.progress is not None:
                self.progress("hear", self.done, self.total)


def _share(config: BulkConfig, parts: Path, left: list[Chunk], workers: int, told: _Told) -> None:
    """Every chunk that is left, by as many processes as there are workers, each watched by a thread."""
    waiting: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
    for part in left:
        waiting.put(part)
    stop = threading.Event()
    processes: list[WorkerProcess] = []
    told(0)

    def watch() -> None:
        for more in reversed(range(LIVES)):
            with WorkerProcess(config, parts) as process:
                processes.append(process)
                try:
                    return _make_all(process, waiting, stop, told)
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
    process: WorkerProcess, waiting: queue.SimpleQueue[Chunk], stop: threading.Event, told: _Told
) -> None:
    """Chunks, until none waits. Raises InfrastructureError when the process dies; its chunk then waits again."""
    while not stop.is_set():
        try:
            part = waiting.get_nowait()
        except queue.Empty:
            return
        try:
            process.make(part)
        except InfrastructureError:
            waiting.put(part)
            raise
        told(part.stop - part.start)


def summary(folder: Path) -> Counter[str]:
    """What all chunks that are done counted."""
    total: Counter[str] = Counter()
    for path in sorted((folder / "parts").glob("*.done.json")):
        total.update(json.loads(path.read_text("utf-8"))["counts"])
    return total


def seconds(folder: Path) -> float:
    """Seconds of one core that the chunks took."""
    found = (
        json.loads(path.read_text("utf-8"))["seconds"] for path in (folder / "parts").glob("*.done.json")
    )
    return sum(found)


def parts_of(folder: Path, suffix: str = ".jsonl") -> Iterator[Path]:
    """The finished parts, in the order of their names."""
    for path in sorted((folder / "parts").glob("*.done.json")):
        yield path.with_name(path.name.replace(".done.json", suffix))


def _file(name: str) -> Path:
    if not Path(name).is_file():
        raise UserError(f"data: examples = {name!r}: no such file; `kernelwright data distill` writes one")
    return Path(name)
