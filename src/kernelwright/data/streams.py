"""JSONL files that grow as `NAME.part` and get their name when they are whole.

A step that is stopped, by Ctrl-C, an error or a kill, leaves its part; run again, it continues there. Lines reach the
file one by one, so a kill loses at most the last one. Survival of a power cut is not guaranteed (nothing is fsynced).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic

from kernelwright.records import R, read_jsonl
from kernelwright.runs import writing

Progress = Callable[[str, int, int], None]
"""Called with a step's name, how much of it is done, and how much there is."""


class Stream(Generic[R]):
    """One such file of records of one kind. `whole` is true when an earlier run finished it."""

    def __init__(self, out: Path, kind: type[R]) -> None:
        """Cuts off a torn last line. Raises UserError where the folder cannot be written."""
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
        """Where the records are now."""
        return self.out if self.whole else self.part

    def records(self) -> Iterator[R]:
        """The records written so far. Raises UserError for a line that is none."""
        return read_jsonl(self.path, self.kind)

    def __len__(self) -> int:
        with self.path.open("rb") as lines:
            return sum(1 for _ in lines)

    def write(self, record: R) -> None:
        """Append one record."""
        with writing(self.part):
            self._file.write(record.model_dump_json() + "\n")

    def __enter__(self) -> Stream[R]:
        """Open for writing; nothing happens to a file that is whole."""
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
