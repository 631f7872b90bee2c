"""Verdicts and unfinished requests on disk, so that a restarted server can resume.

SQLite in WAL mode: a killed process loses no committed row. Verdicts are kept unless the judge itself failed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from kernelwright.errors import UserError
from kernelwright.records import Candidate, Task, Verdict

_TABLES = """
CREATE TABLE IF NOT EXISTS verdicts (id TEXT PRIMARY KEY, verdict TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pending (id TEXT PRIMARY KEY, task TEXT NOT NULL, candidate TEXT NOT NULL);
"""


class VerdictStore:
    """Used from one thread. `path` may be `:memory:`. Raises UserError for a file that is not a store or not writable."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        try:
            if self.path != ":memory:":
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            self._rows = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.execute("PRAGMA synchronous=NORMAL")
            self._rows.executescript(_TABLES)
        except (sqlite3.Error, OSError) as error:
            raise UserError(
                f"--store {self.path}: {error}; name a file that can be written, or remove it"
            ) from None

    def get(self, key: str) -> Verdict | None:
        """The verdict on a request, or None. Rows that another version wrote in another form are ignored."""
        row = self._rows.execute("SELECT verdict FROM verdicts WHERE id = ?", (key,)).fetchone()
        if row is None:
            return None
        try:
            return Verdict.model_validate_json(row[0])
        except ValidationError:
            return None

    def begin(self, key: str, task: Task, candidate: Candidate) -> None:
        """Record a request before it is judged."""
        self._rows.execute(
            "INSERT OR REPLACE INTO pending VALUES (?, ?, ?)",
            (key, task.model_dump_json(), candidate.model_dump_json()),
        )

    def end(self, key: str, verdict: Verdict | None) -> None:
        """End a request; store its verdict unless that is None."""
        self._rows.execute("BEGIN")
        if verdict is not None:
            self._rows.execute(
                "INSERT OR REPLACE INTO verdicts VALUES (?, ?)", (key, verdict.model_dump_json())
            )
        self._rows.execute("DELETE FROM pending WHERE id = ?", (key,))
        self._rows.execute("COMMIT")

    def unfinished(self) -> Iterator[tuple[str, Task, Candidate]]:
        """Requests that an earlier process accepted and did not answer; unreadable rows are dropped."""
        for key, task, candidate in self._rows.execute("SELECT id, task, candidate FROM pending").fetchall():
            try:
                yield key, Task.model_validate_json(task), Candidate.model_validate_json(candidate)
            except ValidationError:
                self.end(key, None)

    def close(self) -> None:
        self._rows.close()
