"""Tasks of TritonBench-T: every call of a PyTorch function in its tests, judged against the function itself.

The layout is that of https://github.com/thunlp/TritonBench (Apache-2.0): `data/TritonBench_T_v1/NAME.py` has a function NAME,
a line of `#`, and a test that calls it a few times and keeps the results. TritonBench compares what two such files print,
which most never do; here the k-th call becomes the task `tritonbench/T/NAME/k` (`calls.py`), with the function as its
reference. A function is solved if all its tasks are (`metrics.summarise`). TritonBench's other half, TritonBench-G, has Triton
kernels without references, so it is not a suite.

Sizes are the test's own, mostly a few elements: a correct kernel is correct by the benchmark, not necessarily at other sizes.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import tomllib
from os.path import isdir
from pathlib import Path

from kernelwright.errors import UserError, did_you_mean
from kernelwright.parsing import callee, parse
from kernelwright.records import Task
from kernelwright.tasks.calls import calls_of, reference
from kernelwright.tasks.effects import REASONS, NotATask
from kernelwright.tasks.form import check_reference, read_text

PREFIX = "tritonbench:"
SUITE = "tritonbench/T"
_FOLDERS = ("data/TritonBench_T_v1", "TritonBench_T_v1")
_RULE = re.compile(r"^#{100,}\s*$", re.MULTILINE)
_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_FOUND: dict[str, str] = _TABLES["found"]
_FAMILIES = {name: family for family, names in _TABLES["families"].items() for name in names.split()}


@dataclasses.dataclass(frozen=True)
class Skipped:
    """A call that is not a task."""

    id: str
    reason: str
    """A key of `REASONS`."""

    @property
    def meaning(self) -> str:
        return REASONS[self.reason]


def load(spec: str) -> list[Task]:
    """Tasks of `PATH[/NAME[,NAME][/K[,K]]]`: of all functions, of the named ones, or of the given calls only.

    Raises UserError for a missing folder, an unknown name, a malformed file, or if no call is a task.
    """
    tasks, skipped = read(spec)
    if not tasks:
        why = f" ({skipped[0].id}: {skipped[0].meaning})" if skipped else ""
        raise UserError(f"{PREFIX}{spec}: none of the calls named is a task{why}; name another function")
    return tasks


def read(spec: str) -> tuple[list[Task], list[Skipped]]:
    """(tasks, calls that are not tasks). Raises UserError like `load`, except when there are no tasks."""
    root, names, numbers = _choose(spec)
    files = {path.stem: path for path in sorted(root.glob("*.py"))}
    if not files:
        raise UserError(f"{root}: no NAME.py files; give a TritonBench checkout")
    for name in names:
        if name not in files:
            raise UserError(
                f"{root}: no function {name!r}{did_you_mean(name, files)}; there are {len(files)}"
            )
    tasks: list[Task] = []
    skipped: list[Skipped] = []
    for name in names or files:
        found, none = from_file(files[name])
        tasks += found
        skipped += none
    if numbers:
        chosen = tuple(f"/{number}" for number in numbers)
        tasks = [task for task in tasks if task.id.endswith(chosen)]
        skipped = [one for one in skipped if one.id.endswith(chosen)]
    return tasks, skipped


def _choose(spec: str) -> tuple[Path, list[str], list[str]]:
    """(folder of the functions, names, numbers of calls); no names: all."""
    path, tail = Path(spec).expanduser(), list[str]()
    while not isdir(path) and path.name and len(tail) < 3:
        path, tail = path.parent, [path.name, *tail]
    if not spec or not isdir(path) or len(tail) > 2:
        raise UserError(
            f"{spec or PREFIX}: no such folder; write {PREFIX}PATH[/NAME[,NAME][/K]], PATH a checkout"
        )
    root = next((path / folder for folder in _FOLDERS if (path / folder).is_dir()), path)
    names, numbers = ([part for part in one.split(",") if part] for one in [*tail, "", ""][:2])
    if not all(number.isdigit() for number in numbers):
        raise UserError(f"{PREFIX}{spec}: bad number of a call {tail[1]!r}; write 1 or 1,3")
    return root, names, numbers


def from_file(path: Path) -> tuple[list[Task], list[Skipped]]:
    """Tasks and left-out calls of one file. Raises UserError if it is not in TritonBench-T's form."""
    name, text = path.stem, read_text(path)
    parts = _RULE.split(text)
    if len(parts) != 2:
        raise UserError(
            f"{path}: no line of # between function and test; give TritonBench-T's files as they are"
        )
    above, below = (_parse(part, path) for part in parts)
    functions = [node for node in above.body if isinstance(node, ast.FunctionDef)]
    tests = [n for n in below.body if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
    if not functions or not tests:
        raise UserError(
            f"{path}: no {'test' if functions else 'function'}; give TritonBench-T's files as they are"
        )
    function = next((node for node in functions if node.name == name), functions[-1])
    modules = {alias.asname or alias.name.partition(".")[0] for node in ast.walk(above)
               if isinstance(node, ast.Import | ast.ImportFrom) for alias in node.names}  # fmt: skip
    source = parts[0] if "torch" in modules else f"import torch\n{parts[0]}"
    family, difficulty = _family(function)
    tasks: list[Task] = []
    skipped: list[Skipped] = []
    for number, call in enumerate((c for test in tests for c in calls_of(function.name, test)), 1):
        where = f"{SUITE}/{name}/{number}"
        try:
            if where.removeprefix(f"{SUITE}/") in _FOUND:
                raise NotATask(_FOUND[where.removeprefix(f"{SUITE}/")])
            made = reference(source, function, call, frozenset(modules | {"torch"}))
        except NotATask as reason:
            skipped.append(Skipped(where, reason.reason))
            continue
        check_reference(made, where)
        tasks.append(Task(id=where, suite=SUITE, source=made, family=family, difficulty=difficulty))
    return tasks, skipped


def _family(function: ast.FunctionDef) -> tuple[str, int]:
    """(family, number of operators) from the operators that the function names; several families are a fusion."""
    named = [callee(node) for node in ast.walk(function) if isinstance(node, ast.Call)]
    products = sum(isinstance(node, ast.MatMult) for node in ast.walk(function))
    found = [_FAMILIES[name] for name in named if name in _FAMILIES] + ["matmul"] * products
    kinds = set(found)
    family = "linalg" if "linalg" in kinds else "fusion" if len(kinds) > 1 else (*found, "elementwise")[0]
    return family, max(1, len(found))


def _parse(text: str, path: Path) -> ast.Module:
    try:
        return parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{path}: not Python ({error}); give TritonBench-T's files as they are") from None
