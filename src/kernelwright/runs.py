"""A run folder: keeps the results of a long command, so that it can be stopped, read and resumed.

    RUN/config.json        the settings              RUN/curves.jsonl     one line per step
    RUN/environment.json   versions and machine      RUN/rollouts.jsonl   everything that was judged
    RUN/metrics.json       the summary               RUN/state.json       which parts are done
    RUN/stages/<stage>/    checkpoints               RUN/eval/<stage>/    a run folder of its own

Files are replaced by rename, so a reader sees either the old or the new one. Lines are appended and flushed one at a time; an
incomplete last line (a killed writer) is cut off before the next append. Not supported: two processes writing to one folder
at once; nor does it survive a power cut (nothing is fsynced).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from kernelwright import __version__
from kernelwright.errors import UserError
from kernelwright.hardware import cores
from kernelwright.records import R, Record, read_jsonl

_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_records(path: Path, records: Iterable[Record]) -> Path:
    """Write records to a JSONL file atomically."""
    return write_text(path, "".join(record.model_dump_json() + "\n" for record in records))


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, or None without the file. Creates no folder. Raises UserError for other content."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UserError(f"{path} cannot be read ({error}); remove it to start anew") from None
    if not isinstance(value, dict):
        raise UserError(f"{path} is not a JSON object; remove it to start anew")
    return value


class RunFolder:
    """One run's folder. Created with its parents; raises UserError if that fails."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)

    def sub(self, *parts: str) -> RunFolder:
        """A run folder inside this one, such as `sub("eval", "sft")`."""
        return RunFolder(self.path.joinpath(*parts))

    def file(self, name: str) -> Path:
        return self.path / name

    def write_json(self, name: str, value: BaseModel | Mapping[str, Any] | list[Any]) -> Path:
        """Write one JSON file atomically."""
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        return write_text(self.path / name, json.dumps(plain, indent=2, ensure_ascii=False) + "\n")

    def read_json(self, name: str) -> dict[str, Any] | None:
        """The object in a JSON file of this folder, or None without the file."""
        return read_json(self.path / name)

    def append(self, name: str, rows: Iterable[Record | Mapping[str, Any]]) -> None:
        """Append rows as lines, each flushed, after cutting off an incomplete line of a killed writer."""
        path = self.path / name
        with writing(path):
            _cut_torn_line(path)
            with path.open("a", encoding="utf-8") as out:
                for row in rows:
                    text = row.model_dump_json() if isinstance(row, Record) else json.dumps(row)
                    out.write(text + "\n")
                    out.flush()

    def rows(self, name: str, kind: type[R]) -> list[R]:
        """The records of a JSONL file of this folder; empty without the file."""
        path = self.path / name
        return list(read_jsonl(path, kind)) if path.exists() else []

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The rows of a JSONL file of this folder as dicts, without an incomplete last line."""
        path = self.path / name
        if not path.exists():
            return []
        text = path.read_text(encoding="utf-8")
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines() if line.strip()]

    def keep_rows(self, name: str, keep: Any) -> None:
        """Rewrite a JSONL file with only the rows for which `keep(row: dict)` is true."""
        if (self.path / name).exists():
            kept = [row for row in self.lines(name) if keep(row)]
            write_text(self.path / name, "".join(json.dumps(row) + "\n" for row in kept))

    # -- resume --------------------------------------------------------------------------------------------

    def done(self, part: str) -> bool:
        """Whether `finish(part)` was called in this or an earlier process."""
        return part in (self.read_json("state.json") or {}).get("done", [])

    def finish(self, part: str) -> None:
        parts = (self.read_json("state.json") or {}).get("done", [])
        if part not in parts:
            self.write_json("state.json", {"done": [*parts, part]})

    def start(self, config: BaseModel | Mapping[str, Any], *, resume: bool) -> None:
        """Write config.json and environment.json, or check that a resumed run has the same settings.

        Raises UserError if the folder holds a run and `resume` is False, or holds a run with other settings.
        """
        plain = config.model_dump(mode="json") if isinstance(config, BaseModel) else dict(config)
        old = self.read_json("config.json")
        if old is not None and not resume:
            raise UserError(f"{self.path} already holds a run; add --resume, or choose another folder")
        if old is not None and old != json.loads(json.dumps(plain)):
            keys = sorted(k for k in {*old, *plain} if old.get(k) != json.loads(json.dumps(plain)).get(k))
            raise UserError(
                f"{self.path} was made with other settings ({', '.join(keys)}); choose another folder"
            )
        if old is None:
            self.write_json("config.json", plain)
        self.write_json("environment.json", environment())


def write_text(path: Path, text: str) -> Path:
    """Write a text file atomically: to a temporary file next to it, then renamed."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, path)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    return path


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a staging folder that replaces `path` on success and is removed on failure."""
    staging = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with writing(path):
        shutil.rmtree(staging, ignore_errors=True)
        try:
            staging.mkdir(parents=True)
            yield staging
            if path.exists():
                old = path.with_name(f".{path.name}.{os.getpid()}.old")
                os.replace(path, old)
                os.replace(staging, path)
                shutil.rmtree(old, ignore_errors=True)
            else:
                os.replace(staging, path)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn failures to write (a full disk, no permission) into a one-line error with the fix.

    Torch and safetensors wrap a full disk in their own errors, so we check free space as well.
    """
    try:
        yield
    except UserError:
        raise
    except OSError as error:
        if error.errno in _FULL:
            raise UserError(_full(path)) from None
        raise UserError(f"{path} cannot be written: {error.strerror or error}") from None
    except Exception:
        if _free_bytes(path) < 1 << 20:
            raise UserError(_full(path)) from None
        raise


def environment() -> dict[str, Any]:
    """What is needed to repeat the run: versions, machine, command, time. Imports nothing heavy."""
    versions = {}
    for package in ("torch", "triton", "transformers", "trl", "numpy"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "kernelwright": __version__,
        "versions": versions,
        "python": platform.python_version(),
        "machine": {"system": platform.platform(), "processor": _processor(), "cpus": cores()},
        "command": " ".join([Path(sys.argv[0]).name, *sys.argv[1:]]),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _cut_torn_line(path: Path) -> None:
    if not path.exists():
        return
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        if size == 0:
            return
        file.seek(size - 1)
        if file.read(1) == b"\n":
            return
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


def _full(path: Path) -> str:
    return f"{path} cannot be written: the disk is full; free some space and go on with --resume"


def _free_bytes(path: Path) -> int:
    for parent in (path, *path.parents):
        if parent.exists():
            return shutil.disk_usage(parent).free
    return 1 << 60
