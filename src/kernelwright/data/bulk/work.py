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
import time
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


class Chunk(BaseModel):
    """Problems `start` to `stop` of a teacher."""

    teacher: Teacher
    start: int
    stop: int

    @property
    def name(self) -> str:
        return f"{self.teacher}-{self.start:06d}"


class Hand(Helper):
    """A process that makes chunks; see `worker.py`."""

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

    Raises UserError when the folder holds another corpus, InfrastructureError when a worker dies twice over a chunk.
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
    waiting: queue.SimpleQueue[Chunk] = queue.SimpleQueue()
    for part in left:
        waiting.put(part)
    stop = threading.Event()
    hands: list[Hand] = []
    told(0)

    def work() -> None:
        failures = 0
        while not stop.is_set():
            with Hand(config, parts) as hand:
                hands.append(hand)
                while not stop.is_set():
                    try:
                        part = waiting.get_nowait()
                    except queue.Empty:
                        return
                    try:
                        hand.make(part)
                    except InfrastructureError:
                        failures += 1
                        if stop.is_set() or failures > 2:
                            raise
                        waiting.put(part)
                        break
                    told(part.stop - part.start)

    with ThreadPoolExecutor(workers) as threads:
        futures = [threads.submit(work) for _ in range(workers)]
        try:
            ended, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in ended:
                future.result()
        finally:
            stop.set()
            for hand in hands:
                hand.__exit__()


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


def clock() -> float:
    """Seconds, for durations."""
    return time.perf_counter()
