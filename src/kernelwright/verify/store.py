"""The judge's cache on disk: small JSON objects by key, safe under concurrent writers.

Entries are written by rename, so a reader finds the old one, the new one or none. If the folder is not writable, the
disk is full or an entry is not JSON, the entry is lost and nothing else.

Only figures are cached. Expected outputs are not: they would tie the secret seeds to a folder, and a GPU computes them
faster than a disk reads them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sys
from pathlib import Path
from typing import Any


def default_folder() -> Path:
    """`$KERNELWRIGHT_CACHE`, else `kernelwright` in the user's cache folder."""
    named = os.environ.get("KERNELWRIGHT_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(named or Path(base) / "kernelwright").expanduser()


class Store:
    """Objects of one kind, in their own folder."""

    def __init__(self, kind: str, folder: Path | None = None) -> None:
        self.folder = (folder or default_folder()) / kind
        self._warned = False

    def get(self, **key: str) -> dict[str, Any] | None:
        """The value last put under this key, or None."""
        try:
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return dict(found["value"]) if isinstance(found, dict) and found.get("key") == key else None

    def put(self, value: dict[str, object], **key: str) -> None:
        """Store `value`; if that fails, print so on stderr once."""
        path = self._path(key)
        fresh = path.with_name(f".{path.stem}.{secrets.token_hex(8)}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps({"key": key, "value": value}, indent=1), encoding="utf-8")
            fresh.replace(path)
        except OSError as error:
            with contextlib.suppress(OSError):
                fresh.unlink()
            if not self._warned:
                self._warned = True
                reason = os.strerror(error.errno) if error.errno else error
                print(
                    f"{self.folder}: {reason}; timings are not remembered (set KERNELWRIGHT_CACHE to a folder "
                    "with room that can be written to)",
                    file=sys.stderr,
                )

    def _path(self, key: dict[str, str]) -> Path:
        name = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:32]
        return self.folder / f"{name}.json"
