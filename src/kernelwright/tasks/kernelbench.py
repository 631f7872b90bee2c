"""Tasks of KernelBench: files `level<k>/<id>_<Name>.py` of a checkout, in numerical order of ids, or rows of a table.

The layout is that of https://github.com/ScalingIntelligence/KernelBench (MIT). Families of level 1 follow from ids; level 2
is fusions, levels 3 and 4 whole models. No shapes are added: see `tasks.shapes.small_shapes`.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelwright.errors import UserError
from kernelwright.records import Task
from kernelwright.tasks.form import check_reference, read_text

PREFIX = "kernelbench:"
_SPEC = re.compile(r"^(?P<path>.+?)(?:/level_?(?P<level>\d+)(?:/(?P<ids>[\d,\-]+))?)?/*$")
_FILE = re.compile(r"^(\d+)_.*\.py$")
_LEVEL_1 = (
    ("matmul", range(1, 19)),
    ("activation", (*range(19, 33), 88)),
    ("norm", range(33, 41)),
    ("pooling", range(41, 47)),
    ("reduction", (47, 48, 49, 51, 52, 53)),
    ("convolution", (50, *range(54, 88))),
    ("scan", range(89, 94)),
    ("loss", (94, 95, 96, 98, 99, 100)),
    ("attention", (97,)),
)


def load(spec: str) -> list[Task]:
    """Tasks of `PATH[/level1[/3,5-9]]`; all levels if none is named.

    Raises UserError for a missing folder or level, an unknown id, a bad range, or a malformed file.
    """
    match = _SPEC.match(spec)
    if match is None:
        raise UserError("kernelbench: no path; write kernelbench:PATH[/level1[/3,5-9]]")
    root = _root(Path(match["path"]).expanduser())
    levels = sorted(
        int(folder.name.removeprefix("level"))
        for folder in root.glob("level*")
        if folder.name.removeprefix("level").isdigit()
    )
    if match["level"] is not None:
        if int(match["level"]) not in levels:
            found = ", ".join(f"level{k}" for k in levels) or "none"
            raise UserError(f"{root}: no folder level{int(match['level'])}; levels here: {found}")
        levels = [int(match["level"])]
    tasks = []
    for level in levels:
        files = {
            int(m[1]): path for path in (root / f"level{level}").iterdir() if (m := _FILE.match(path.name))
        }
        wanted = sorted(files) if match["ids"] is None else parse_ids(match["ids"])
        for number in wanted:
            if number not in files:
                known = f"ids {min(files)} to {max(files)}" if files else "the folder is empty"
                raise UserError(f"{root}/level{level}: no task with id {number}; {known}")
            source = check_reference(read_text(files[number]), str(files[number]))
            tasks.append(make_task(level, files[number].stem, source))
    if not tasks:
        raise UserError(f"{root}: no level<k>/<id>_<name>.py files; give a KernelBench checkout")
    return tasks


def make_task(level: int, name: str, source: str) -> Task:
    """The Task `kernelbench/level<level>/<name>`, with family and difficulty from its level, id and name."""
    suite = f"kernelbench/level{level}"
    number, _, operators = name.partition("_")
    family, difficulty = "model", 5
    if level == 1:
        family = next((f for f, ids in _LEVEL_1 if number.isdigit() and int(number) in ids), "")
        difficulty = 1
    elif level == 2:
        family, difficulty = "fusion", max(2, len([part for part in operators.split("_") if part]))
    return Task(id=f"{suite}/{name}", suite=suite, source=source, family=family, difficulty=difficulty)


def from_row(row: Any, where: str) -> Task:
    """One KernelBench row as the task `kernelbench/level<level>/<name>`. Raises UserError on a missing column."""
    if not isinstance(row, Mapping):
        raise UserError(f"{where}: not an object; a row has the columns code, level, name, problem_id")
    missing = [key for key in ("code", "level", "name") if row.get(key) in (None, "")]
    if missing:
        raise UserError(
            f"{where}: no column {missing[0]!r}; a row has the columns code, level, name, problem_id "
            "(or source and id, for our own Task records)"
        )
    level = str(row["level"]).lower().removeprefix("level").strip("_ ")
    if not level.isdigit():
        raise UserError(f"{where}: level is {row['level']!r}; valid: a whole number such as 1")
    name, number = str(row["name"]), row.get("problem_id")
    if number is not None and not name.startswith(f"{number}_"):
        name = f"{number}_{name}"
    return make_task(int(level), name, check_reference(str(row["code"]), where))


def parse_ids(text: str) -> list[int]:
    """`3,5-7` as [3, 5, 6, 7], sorted and unique. Raises UserError for anything else."""
    numbers: set[int] = set()
    for part in filter(None, text.split(",")):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last > 10**6:
            raise UserError(f"kernelbench: bad ids {part!r}; write ids as 3,5-9")
        numbers.update(range(first, last + 1))
    return sorted(numbers)


def _root(path: Path) -> Path:
    """The folder that contains `level1` ...: `path/KernelBench` in a checkout, or `path` itself."""
    if not path.is_dir():
        raise UserError(f"{path}: no such folder; give a KernelBench checkout, or a folder holding level1/")
    return path / "KernelBench" if any((path / "KernelBench").glob("level*")) else path
