"""The built-in suite `wright`, and any folder in the same form: one folder per task.

    NAME/task.py     the reference, in the KernelBench form
    NAME/task.toml   family, difficulty, policy, dtype, [shapes.*]
    NAME/gold.py     a kernel that the verifier accepts, if no rung has one (`policy/gold.py`; not part of the task)

A folder without `task.py` or `task.toml` is not a task and is skipped.
"""

import tomllib
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from kernelwright.errors import UserError, did_you_mean
from kernelwright.records import Task
from kernelwright.tasks.form import check_reference, check_shapes, read_text

SUITE = "wright"
FOLDER = Path(__file__).parent / "wright"
_KEYS = ("family", "difficulty", "policy", "min_share", "dtype", "shapes")


def load(only: str = "") -> list[Task]:
    """The built-in tasks that any comma-separated word of `only` names (exact name, else family, else name prefix); all without
    words."""
    tasks = list(_built_in())
    names = {task.id.removeprefix(f"{SUITE}/"): task for task in tasks}
    kept: set[str] = set()
    for word in filter(None, only.split(",")):
        hits = [names[word]] if word in names else [task for task in tasks if task.family == word]
        hits = hits or [task for name, task in names.items() if name.startswith(word)]
        if not hits:
            families = sorted({task.family for task in tasks})
            hint = did_you_mean(word, [*names, *families])
            raise UserError(f"suite {SUITE}: nothing matches {word!r}{hint}; families: {', '.join(families)}")
        kept |= {task.id for task in hits}
    return [task for task in tasks if task.id in kept] if only.strip(",") else tasks


def load_folder(folder: Path, suite: str) -> list[Task]:
    """Every task folder directly under `folder`, or `folder` itself if it is one. Raises UserError if none."""
    if (folder / "task.py").exists():
        return [load_task(folder, suite=folder.resolve().parent.name)]
    tasks = _scan(folder, suite)
    if not tasks:
        raise UserError(f"{folder}: holds no task folders; each task is a folder with task.py and task.toml")
    return tasks


def load_task(folder: Path, suite: str) -> Task:
    """One task folder as a Task. Raises UserError naming the file at fault."""
    toml_path, source_path = folder / "task.toml", folder / "task.py"
    try:
        spec = tomllib.loads(read_text(toml_path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{toml_path}: not TOML ({error}); fix the syntax") from None
    for key in spec:
        if key not in _KEYS:
            raise UserError(f"{toml_path}: unknown key {key!r}; valid: {', '.join(_KEYS)}")
    source = check_reference(read_text(source_path), str(source_path))
    try:
        task = Task(id=f"{suite}/{folder.name}", suite=suite, source=source, **spec)
    except ValidationError as error:
        first = error.errors()[0]
        raise UserError(f"{toml_path}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    return check_shapes(task, str(toml_path))


@lru_cache(maxsize=1)
def _built_in() -> tuple[Task, ...]:
    return tuple(_scan(FOLDER, SUITE))


def _scan(folder: Path, suite: str) -> list[Task]:
    homes = sorted(home for home in folder.iterdir() if (home / "task.toml").exists())
    return [load_task(home, suite) for home in homes if (home / "task.py").exists()]
