"""JSONL files that are written as `NAME.part` and renamed when complete.

A command that is stopped (Ctrl-C, an error, a kill) leaves its part, and continues it when run again. Each line is written at
once, so a kill loses at most the last one. May not survive a power cut (nothing is fsynced).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic

from kernelwright.records import R, read_jsonl
from kernelwright.runs import writing

Progress = Callable[[str, int, int], None]
"""Called with a step's name, units done, and units in total."""


def silent(step: str, done: int, total: int) -> None:
    """A Progress that shows nothing."""


class Stream(Generic[R]):
    """A file of records of one kind. `whole` is true if an earlier run finished it."""

    def __init__(self, out: Path, kind: type[R]) -> None:
        """Cuts off an incomplete last line. Raises UserError if the folder cannot be written."""
        self.out, self.kind = out, kind
        self.part = out.with_name(out.name + ".part")
        self.whole = out.exists() and not self.part.exists()
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            if not self.whole:
                text = self.part.read_bytes() if self.part.exists() else b""
                self.part.write_bytes(text[: text.rfind(b"\n") + 1])

    @property
    def path(self) -> Path:
        """The file that holds the records now."""
        return self.out if self.whole else self.part

    def records(self) -> Iterator[R]:
        """The records written so far. Raises UserError for an invalid line."""
        return read_jsonl(self.path, self.kind)

    def __len__(self) -> int:
        with self.path.open("rb") as lines:
            return sum(1 for _ in lines)

    def write(self, record: R) -> None:
        """Append one record."""
        with writing(self.part):
            self._file.write(record.model_dump_json() + "\n")

    def __enter__(self) -> Stream[R]:
        """Open for writing; does nothing if the file is complete."""
        if not self.whole:
            self._file = self.part.open("a", encoding="utf-8", buffering=1)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if self.whole:
            return
        with writing(self.out):
            self._file.close()
            if kind is None:
                os.replace(self.part, self.out)
                self.whole = True
