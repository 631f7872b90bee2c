"""Tasks from single files: one Python reference, or rows of a parquet or JSONL table.

Does not guarantee that a reference runs: its form is checked (`tasks.form`), it is not executed.
"""

import json
from pathlib import Path

from pydantic import ValidationError

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.tasks.form import check_reference, check_shapes, read_text
from kernelwright.tasks.kernelbench import from_row


def load_python(path: Path) -> Task:
    """One `.py` reference as the task `file/<stem>`."""
    return Task(id=f"file/{path.stem}", suite="file", source=check_reference(read_text(path), str(path)))


def load_jsonl(path: Path) -> list[Task]:
    """Rows of JSON: our own `Task` records, or KernelBench rows (`code, level, name, problem_id`)."""
    tasks = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise UserError(f"{where}: not JSON; a .jsonl suite holds one JSON object per line") from None
        if isinstance(row, dict) and "source" in row:
            try:
                task = Task.model_validate_json(line)
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
    """Rows of a KernelBench parquet file (`code, level, name, problem_id`). Needs pyarrow (extra `train`)."""
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
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        what = str(error).splitlines()[0]
        raise UserError(f"{path}: not a readable parquet file ({what}); download it again") from None
    return _unique([from_row(row, f"{path}: row {number}") for number, row in enumerate(rows)], path)


def _unique(tasks: list[Task], path: Path) -> list[Task]:
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise UserError(f"{path}: task id {task.id!r} stands twice; ids are unique in a suite")
        seen.add(task.id)
    if not tasks:
        raise UserError(f"{path}: holds no tasks; it needs at least one row")
    return tasks
