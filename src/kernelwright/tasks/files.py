"""Tasks from single files: one Python reference, or rows of a parquet or JSONL table.

A reference is not guaranteed to run: its form is checked (`tasks.form`), but it is not executed.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.tasks.form import check_reference, check_shapes, read_text
from kernelwright.tasks.kernelbench import from_row


def load_python(path: Path) -> Task:
    """One `.py` reference as the task `file/<stem>`."""
    return Task(id=f"file/{path.stem}", suite="file", source=check_reference(read_text(path), str(path)))


def json_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(position, object) of each non-blank line. Raises UserError for a line that is not a JSON object."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UserError(f"{path}:{number}: not a JSON object; a .jsonl file holds one per line")
        yield f"{path}:{number}", row


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    """The table's rows. Needs pyarrow (extra `train`). Raises UserError."""
    if not path.exists():
        raise UserError(f"{path}: no such file; check the path")
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            f"{path}: reading parquet needs pyarrow; pip install 'kernelwright[train]', or convert to .jsonl"
        ) from None
    try:
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        what = str(error).splitlines()[0]
        raise UserError(f"{path}: not a readable parquet file ({what}); download it again") from None
    return rows


def load_jsonl(path: Path) -> list[Task]:
    """Rows of JSON: our own `Task` records, or KernelBench rows (`code, level, name, problem_id`)."""
    tasks = []
    for where, row in json_rows(path):
        if "source" in row:
            try:
                task = Task.model_validate(row)
            except ValidationError as error:
                first = error.errors()[0]
                at = ".".join(str(part) for part in first["loc"]) or "record"
                raise UserError(f"{where}: not a Task: {at}: {first['msg']}") from None
            check_reference(task.source, where)
            tasks.append(check_shapes(task, where))
        else:
            tasks.append(from_row(row, where))
    return _unique(tasks, path)


def load_parquet(path: Path) -> list[Task]:
    """Rows of a KernelBench parquet file (`code, level, name, problem_id`)."""
    tasks = [from_row(row, f"{path}: row {number}") for number, row in enumerate(parquet_rows(path))]
    return _unique(tasks, path)


def _unique(tasks: list[Task], path: Path) -> list[Task]:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise UserError(f"{path}: task id {task.id!r} appears twice; ids are unique in a suite")
        seen.add(task.id)
    if not tasks:
        raise UserError(f"{path}: holds no tasks; it needs at least one row")
    return tasks
