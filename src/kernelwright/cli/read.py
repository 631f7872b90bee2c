"""Reads and checks what a user names on the command line: a task, module, function or kernel, or tasks that can be judged.

No kernel is executed here. References are the user's own, and trusted.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernelwright.errors import ENDS, UserError, did_you_mean, one_line
from kernelwright.precision import CAST, in_precision, precision_of
from kernelwright.records import Candidate, Task
from kernelwright.runs import write_text
from kernelwright.shapes import constants
from kernelwright.tasks import load_suite, load_task, small_shapes
from kernelwright.tasks.form import NoForm, read_text

if TYPE_CHECKING:
    from kernelwright.search.cases import Case
    from kernelwright.search.whole import Settings


def one_task(spec: str, precision: str = "default") -> Task:
    """The single task that a file or a suite's name refers to, in a precision, with sizes that can be judged without a
    GPU."""
    from kernelwright.cli import fit

    task = small_shapes(named_task(spec))
    if not task.small_sets:
        if why := fit.error_of(task):
            raise UserError(f"task {task.id}: Model.forward {why}; fix the task")
        raise UserError(
            f"{spec}: no sizes small enough for the interpreter could be found; put it in a folder as task.py "
            "with a task.toml that gives [shapes.small]"
        )
    fit.check(task)
    return in_precision(task, precision)


def named_task(spec: str) -> Task:
    """The task that a file or a suite's name refers to. A file without a task is executed, to say what stops it before it has one.
    Raises UserError."""
    try:
        return load_task(spec)
    except NoForm:
        if spec.endswith(".py"):
            _import_home(spec)
        raise


def check_named(spec: str) -> None:
    """Raises UserError for a file that is missing or cannot be read, and for a task that is none; takes milliseconds."""
    home, _, _ = spec.rpartition(":")
    if not names_object(spec):
        named_task(spec)
    elif home.endswith(".py"):
        read_text(Path(home).expanduser())


_OBJECT = re.compile(r"(?P<home>[\w./~\\-]+):(?P<name>[A-Za-z_]\w*)")
_SUITES = ("kernelbench", "tritonbench", "openai")


def case(spec: str, settings: Settings) -> Case:
    """The case to search kernels for: a task, or a class, module or function of a Python module, with its `get_inputs`.

    A class is instantiated with `get_init_inputs()`, if its module has one, and put in evaluation mode. `get_inputs()` returns the
    arguments as a tuple or list, or keywords as a dict. Executes what it names. Raises UserError.
    """
    from kernelwright.search.cases import of_task

    if not names_object(spec):
        task = in_precision(small_shapes(named_task(spec)), settings.precision)
        return of_task(task, settings.contractions, large=bool(settings.gpu))
    from kernelwright import api

    home, _, name = spec.rpartition(":")
    module, args, kwargs = live(home, name, settings.precision)
    return api.case_of(module, api.captured_of(module, args, kwargs))


def read_class_task(spec: str, kernel: Path, precision: str = "default") -> tuple[Task, Candidate]:
    """The task of a class, module or function, and a kernel for it as the judge accepts it: written by `optimize`, or any on the
    graph's arguments. Executes what is named, and compares it with its graph. Raises UserError."""
    from kernelwright import api
    from kernelwright.search.rung import CannotWrite

    home, _, name = spec.rpartition(":")
    module, args, kwargs = live(home, name, precision)
    captured = api.captured_of(module, args, kwargs)
    made, text = api.case_of(module, captured), read_text(kernel)
    made.check()
    names = captured.part.call.leaves
    there = sys.modules[Path(home).stem if home.endswith(".py") else home]
    ties = [
        [(str(names[leaf]), dim) for leaf, dim in tied]
        for tied in _tied(there, args)
        if all(isinstance(names[leaf], str) and names[leaf] in captured.part.inputs for leaf, _ in tied)
    ]
    try:
        task, code = made.posed(text, precision, ties)
    except CannotWrite as why:
        raise UserError(f"{kernel}: {why}") from None
    return in_precision(task, precision), Candidate(code=code)


def _tied(there: Any, args: tuple[Any, ...]) -> list[list[tuple[int, int]]]:
    """Groups of (number of an argument or of a part of one, dimension) whose sizes come from the same constants of a module."""
    import torch
    from torch.utils import _pytree as pytree

    def shapes(given: object) -> list[tuple[int, ...]]:
        return [tuple(getattr(one, "shape", ())) for one in pytree.tree_leaves(given)]

    usual = shapes(args)
    made: dict[tuple[int, int], list[tuple[str, int]]] = {}
    for name, value in list(vars(there).items()):
        if type(value) is not int or value < 2:
            continue
        setattr(there, name, 2 * value)
        try:
            with torch.no_grad(), torch.device("meta"):
                other = shapes(tuple(there.get_inputs()))
        except Exception:  # the user's own code, which may not accept that size
            continue
        finally:
            setattr(there, name, value)
        for leaf, (before, after) in enumerate(zip(usual, other, strict=False)):
            for dim, (old, new) in enumerate(zip(before, after, strict=False)):
                if old != new:
                    made.setdefault((leaf, dim), []).append((name, new))
    groups: dict[tuple[object, ...], list[tuple[int, int]]] = {}
    for (leaf, dim), changes in made.items():
        groups.setdefault((usual[leaf][dim], *changes), []).append((leaf, dim))
    return [tied for tied in groups.values() if len(tied) > 1]


def names_object(spec: str) -> bool:
    """Whether it is FILE.py:NAME or package.module:NAME, rather than a suite."""
    match = _OBJECT.fullmatch(spec)
    return match is not None and match["home"] not in _SUITES


def live(home: str, name: str, precision: str = "default") -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """(module or function, arguments, keywords) of `name` in an importable module or a .py file. Under `bf16` and `fp16` single
    precision is cast to that, in weights and arguments. Raises UserError."""
    import torch

    there = _import_home(home)
    made = getattr(there, name, None)
    if made is None:
        known = [key for key, one in vars(there).items() if callable(one) and not key.startswith("_")]
        raise UserError(
            f"{home} has no {name}{did_you_mean(name, known)}; it defines {', '.join(known[:8]) or 'nothing'}"
        )
    if not hasattr(there, "get_inputs"):
        raise UserError(
            f"{home} has no get_inputs(); add one that returns what {name} is called with, as a tuple"
        )
    try:
        with torch.no_grad():
            if isinstance(made, type):
                init = there.get_init_inputs() if hasattr(there, "get_init_inputs") else []
                made = made(**init) if isinstance(init, dict) else made(*init)
                made = made.eval() if isinstance(made, torch.nn.Module) else made
            made, given = _cast(made, there.get_inputs(), precision)
    except Exception as error:  # the user's own code
        raise UserError(f"{home}:{name} raises {type(error).__name__}: {one_line(error)}; fix it") from None
    if isinstance(given, dict):
        return made, (), given
    return made, tuple(given) if isinstance(given, list | tuple) else (given,), {}


def _cast(made: Any, given: Any, precision: str) -> tuple[Any, Any]:
    """A module or function and its arguments, single precision cast as a precision says."""
    import torch
    from torch.utils import _pytree as pytree

    if precision not in CAST:
        return made, given
    dtype: torch.dtype = getattr(torch, CAST[precision])

    def convert(one: torch.Tensor) -> torch.Tensor:
        return one.to(dtype) if one.dtype == torch.float32 else one

    return (
        made._apply(convert) if isinstance(made, torch.nn.Module) else made,
        pytree.tree_map_only(torch.Tensor, convert, given),
    )


def _import_home(home: str) -> Any:
    """Import a module by name or path."""
    try:
        if not home.endswith(".py"):
            if "" not in sys.path:
                sys.path.insert(0, "")  # where `python -m` would find it
            return importlib.import_module(home)
        path = Path(home).expanduser()
        read_text(path)
        known = importlib.util.spec_from_file_location(path.stem, path)
        assert known is not None
        assert known.loader is not None
        made = sys.modules[path.stem] = importlib.util.module_from_spec(known)
        known.loader.exec_module(made)
        return made
    except UserError:
        raise
    except ModuleNotFoundError as error:
        if home.endswith(".py"):
            raise UserError(f"{home}: {_line_in(error, home)}{one_line(error)}; install it") from None
        raise UserError(
            f"{home}: there is no module {error.name}; install it, or give the path of a .py file"
        ) from None
    except SystemExit as error:
        raise UserError(f"{home}: {_line_in(error, home)}{ENDS}") from None
    except Exception as error:  # the user's own code
        raise UserError(
            f"{home}: {_line_in(error, home)}it raises {type(error).__name__} when imported: {one_line(error)}; fix it"
        ) from None


def _line_in(error: BaseException, home: str) -> str:
    """`line 3: `, the line of a file that an error passed through last; "" if there is none."""
    file = str(Path(home).expanduser().absolute())
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == file]
    return f"line {lines[-1]}: " if lines else ""


def with_ranges(task: Task, text: str) -> Task:
    """The task with ranges of sizes from `N=1:4096,M=16:`. Raises UserError for anything that is not a constant's range."""
    known = constants(task.source)
    ranges: dict[str, tuple[int, int | None]] = {}
    for part in text.split(","):
        found = re.fullmatch(r"\s*([\w\[\]]+)\s*=\s*(\d+)\s*:\s*(\d*)\s*", part)
        if found is None or int(found[2]) < 1 or (found[3] and int(found[3]) < int(found[2])):
            raise UserError(
                f"--sizes: {part.strip()!r} is not a range; write NAME=LEAST:MOST, such as N=1:4096, or N=1:"
            )
        if found[1] not in known:
            raise UserError(
                f"--sizes: {task.id} has no constant {found[1]}; its constants are {', '.join(known)}"
            )
        ranges[found[1]] = int(found[2]), int(found[3]) if found[3] else None
    return task.model_copy(update={"ranges": ranges})


def suite(spec: str, limit: int = 0, precision: str = "default", whole: bool = False) -> list[Task]:
    """The first `limit` (0: all) tasks of a suite in a precision, without those that do not run in it; `whole` includes tasks for
    which no small sizes were found. Raises UserError if none can be judged."""
    found = load_suite(spec)[: limit or None]
    good, bad = judgeable(found)
    if whole:
        small = {task.id: task for task in good}
        return [in_precision(small.get(task.id, task), precision) for task in found]
    if bad:
        names = ", ".join(task.id for task in bad[:5]) + (", ..." if len(bad) > 5 else "")
        print(f"{len(bad)} of {len(found)} tasks left out, for no small sizes run: {names}", file=sys.stderr)
    if not good:
        raise UserError(f"{spec}: no task runs at sizes small enough for the interpreter")
    from kernelwright.cli import fit

    cast = [in_precision(task, precision) for task in good]
    runs = [task for task in cast if not precision_of(task).cast or not fit.error_of(task)]
    if len(runs) < len(cast):
        print(
            f"{len(cast) - len(runs)} of {len(cast)} tasks left out, for they do not run in {precision}",
            file=sys.stderr,
        )
    if not runs:
        raise UserError(f"{spec}: no task runs in {precision}; choose another precision")
    return runs


def judgeable(tasks: Sequence[Task]) -> tuple[list[Task], list[Task]]:
    """(tasks with small sizes, tasks for which none were found)."""
    if all(task.small_sets for task in tasks):
        return list(tasks), []
    from kernelwright.progress import Bar
    from kernelwright.tasks.probe import ReferenceProbe

    sized = []
    with ReferenceProbe() as probe, Bar("small sizes", len(tasks)) as bar:
        for task in tasks:
            sized.append(small_shapes(task, probe))
            bar.advance()
    return [t for t in sized if t.small_sets], [t for t in sized if not t.small_sets]


def kernel(path: Path) -> Candidate:
    """A `.py` file as it is; any other file as a completion, from which the code is parsed."""
    from kernelwright import candidates

    text = read_text(path)
    if path.suffix.lower() == ".py" and text.strip():
        return Candidate(code=text)
    return candidates.parse(text)


def place(path: Path) -> Path:
    """`path`, if a file can be written there. Raises UserError for a device, pipe or folder (files are written by rename), and
    for a place where no file can be made."""
    if (path.exists() and not path.is_file()) or path.absolute().is_relative_to("/dev"):
        raise UserError(f"{path} is not a regular file; name one")
    there = next(one for one in path.absolute().parents if one.exists())  # missing folders are made
    try:
        tempfile.TemporaryFile(dir=there).close()
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}; name another file") from None
    return path


def json_place(path: Path | None) -> None:
    """Like `place`, for `--json FILE`, which may be omitted, or - for stdout."""
    if path is not None and str(path) != "-":
        place(path)


def write_json(path: Path | None, text: str) -> bool:
    """Write JSON to the file of `--json`. Returns whether that is stdout, in place of tables."""
    if str(path) == "-":
        print(text)
    elif path is not None:
        write_text(path, text + "\n")
    return str(path) == "-"
