"""A progress bar with an ETA for long commands; without a terminal, a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any


class Bar:
    """`with Bar("sft", total=200) as bar: bar.advance(1, "loss 0.41")`."""

    def __init__(self, title: str, total: int, *, done: int = 0, quiet: bool = False) -> None:
        """`done`: units finished by an earlier run. `quiet`: show nothing."""
        self.title, self.total, self.done, self.quiet = title, total, done, quiet
        self._first, self._start, self._said = done, time.monotonic(), 0.0
        self._bar: Any = None

    def __enter__(self) -> Bar:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._bar = Progress(
                TextColumn("{task.description:<10}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                TextColumn("{task.fields[note]}"),
                console=Console(stderr=True),
            )
            self._bar.start()
            self._bar.add_task(self.title, total=self.total, completed=self.done, note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int = 1, note: str = "") -> None:
        """Add `count` finished units; `note` is shown next to the ETA."""
        self.done += count
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self.done, note=note)
        elif not self.quiet and (time.monotonic() - self._said > 10 or self.done >= self.total):
            self._said = time.monotonic()
            eta = (
                (self._said - self._start) / max(1, self.done - self._first) * max(0, self.total - self.done)
            )
            print(
                f"{self.title} {self.done}/{self.total} eta {eta:.0f}s {note}".rstrip(),
                file=sys.stderr,
                flush=True,
            )
