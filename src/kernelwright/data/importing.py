"""Imports existing pairs in KernelBook's form: a PyTorch module, and Triton code that an older Inductor generated for it.

    rows (parquet, JSONL, a hub name) -> task + code -> removed names rewritten -> judge -> examples

Columns: `python_code`, `triton_code` and optionally `entry_point`, the module's class. Accepted pairs go to `OUT`, others
with the reason to `OUT`'s `.rejected.jsonl`, in the order of the rows; a stopped run resumes. Modules are executed only by
the judge, in its sandbox. Licences are not checked: filter the data set before importing.
"""

from __future__ import annotations

import ast
from collections import Counter, deque
from collections.abc import Mapping
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any

from kernelwright import migrate
from kernelwright.data.decide import fair
from kernelwright.data.streams import Progress, Stream, silent
from kernelwright.errors import UserError, one_line
from kernelwright.parsing import method_of, parse
from kernelwright.records import Candidate, Example, Record, Task, Verdict
from kernelwright.rollouts import Verifier
from kernelwright.tasks.files import json_rows, parquet_rows

AHEAD = 64
"""Most rows with pending verdicts before we wait for the first."""
REFERENCE, KERNEL, ENTRY = ("python_code", "pytorch_code"), ("triton_code",), "entry_point"
REWRITTEN = "imported, rewritten"
"""Teacher of an example whose names were rewritten; the others have `AS_IT_WAS`."""
AS_IT_WAS = "imported"
_CONFIG = """import types


def _mock_config(**fields):
    return types.SimpleNamespace(**fields)
"""
_TEST_HELPERS = "_paritybench_helpers"


class Refused(Record):
    """A row that did not become an example."""

    row: int
    reason: str
    """`unreadable: ...`, `left: ...` (a removed name without replacement), or `judge: OUTCOME`."""
    rewritten: tuple[str, ...] = ()
    verdict: Verdict | None = None
    code: str = ""


def bring(
    source: str, out: Path, verifier: Verifier, *, limit: int = 0, progress: Progress = silent
) -> Counter[str]:
    """Import the rows of `source`. Returns counts by result; `accepted` splits into `rewritten` and `as they were`.

    Raises UserError for a source that cannot be read, InfrastructureError if the judge itself fails.
    """
    given = rows(source)
    given = given[: limit or None]
    good, bad = Stream(out, Example), Stream(out.with_name(f"{out.stem}.rejected.jsonl"), Refused)
    if not (good.whole and bad.whole):
        _judge_all(given, good, bad, verifier, progress)
    ended = Counter({"rows": len(given), "accepted": len(good)})
    for example in good.records():
        ended["accepted, rewritten" if example.teacher == REWRITTEN else "accepted, as they were"] += 1
    for refused in bad.records():
        ended[refused.reason] += 1
    return ended


def _judge_all(
    given: list[Mapping[str, Any]],
    good: Stream[Example],
    bad: Stream[Refused],
    verifier: Verifier,
    progress: Progress,
) -> None:
    done = len(good) + len(bad)
    rows = islice(enumerate(given), done, None)
    waiting: deque[tuple[int, Example | Refused, Future[Verdict] | None]] = deque()
    with good, bad:
        while True:
            for number, row in islice(rows, AHEAD - len(waiting)):
                made = draft(row, number)
                judged = None
                if not isinstance(made, Refused):
                    judged = verifier.submit(made.task, Candidate(code=made.code))
                waiting.append((number, made, judged))
            if not waiting:
                return
            number, made, judged = waiting.popleft()
            if isinstance(made, Example) and judged is not None:
                verdict = fair(judged)
                if not verdict.correct:
                    names = migrate.migrate(str(_column(given[number], KERNEL))).changed
                    why = f"judge: {verdict.outcome}"
                    made = Refused(row=number, reason=why, rewritten=names, verdict=verdict, code=made.code)
            if isinstance(made, Example):
                good.write(made)
            else:
                bad.write(made)
            done += 1
            progress("import", done, len(given))


def draft(row: Mapping[str, Any], number: int) -> Example | Refused:
    """A row as an unjudged example, or why it cannot be one."""
    name = str(row.get(ENTRY) or "")
    try:
        reference = reference_of(str(_column(row, REFERENCE)), name)
        code = module_of(str(_column(row, KERNEL)), name)
    except (SyntaxError, ValueError) as error:
        return Refused(row=number, reason=f"unreadable: {error}"[:120])
    made = migrate.migrate(code)
    if made.left:
        return Refused(row=number, reason=f"left: {made.left}"[:120])
    place = row.get("uuid") if row.get("uuid") is not None else number
    id = f"import/{place}-{name or 'Model'}"
    task = Task(id=id, suite="import", source=reference, family="import", shapes={"small": {}})
    teacher = REWRITTEN if made.changed else AS_IT_WAS
    return Example(task=task, plan="", code=made.code, teacher=teacher, graph=task.digest)


def reference_of(text: str, name: str) -> str:
    """A module's file in the KernelBench form: `class Model`, and `get_init_inputs` without keywords.

    Raises ValueError without such a class or its `get_inputs`.
    """
    tree = _rename(parse(text), name, "Model")
    helped = False
    for node in list(tree.body):
        if isinstance(node, ast.ImportFrom) and node.module == _TEST_HELPERS:
            tree.body.remove(node)
            helped = True
    model = next((one for one in tree.body if isinstance(one, ast.ClassDef) and one.name == "Model"), None)
    functions = {one.name: one for one in tree.body if isinstance(one, ast.FunctionDef)}
    if model is None or "get_inputs" not in functions:
        raise ValueError("no module with its get_inputs")
    get_init_inputs = functions.get("get_init_inputs")
    if get_init_inputs is not None:
        _without_keywords(get_init_inputs, model)
    else:
        tree.body += parse("def get_init_inputs():\n    return []\n").body
    head = _CONFIG if helped and "_mock_config" in text else ""
    return head + ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def module_of(text: str, name: str) -> str:
    """The Triton side with its class renamed to `ModelNew`. Raises ValueError without such a class."""
    tree = parse(text)
    classes = [one.name for one in tree.body if isinstance(one, ast.ClassDef)]
    own = next((one for one in (f"{name}New", "ModelNew") if one in classes), "")
    own = own or next((one for one in reversed(classes) if one.endswith("New")), "")
    if not own:
        raise ValueError("no class of the Triton side ends in New")
    tree = _rename(tree, own, "ModelNew")
    tree.body = [
        one for one in tree.body if not (isinstance(one, ast.ImportFrom) and one.module == _TEST_HELPERS)
    ]
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _rename(tree: ast.Module, name: str, to: str) -> ast.Module:
    """The tree with the class `name` renamed to `to`; without a name, the last class with a `forward`."""
    if not name:
        found = [one for one in tree.body if isinstance(one, ast.ClassDef) and method_of(one, "forward")]
        name = found[-1].name if found else to
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == name:
            node.id = to
        elif isinstance(node, ast.ClassDef) and node.name == name:
            node.name = to
    return tree


def _without_keywords(get_init_inputs: ast.FunctionDef, model: ast.ClassDef) -> None:
    """`return [[a], {'b': 1}]` -> `return [a, 1]`, in the constructor's order; its defaults fill gaps."""
    given = next((one.value for one in get_init_inputs.body if isinstance(one, ast.Return)), None)
    if not isinstance(given, ast.List) or len(given.elts) != 2:
        return
    first, second = given.elts
    if not isinstance(first, ast.List) or not isinstance(second, ast.Dict):
        return
    words = {
        key.value: value
        for key, value in zip(second.keys, second.values, strict=True)
        if isinstance(key, ast.Constant)
    }
    made = list(first.elts)
    constructor = method_of(model)
    if words and constructor is None:
        raise ValueError("keywords for a constructor that the class has not")
    if constructor is not None:
        names = [one.arg for one in constructor.args.args[1:]]
        defaults = dict(zip(reversed(names), reversed(constructor.args.defaults), strict=False))
        for name in names[len(made) :]:
            if not words:
                break
            value = words.pop(name, None) or defaults.get(name)
            if value is None:
                raise ValueError(f"the constructor's {name} is not given")
            made.append(value)
    if words:
        raise ValueError(f"the constructor has no positional {', '.join(map(str, words))}")
    returned = next(one for one in get_init_inputs.body if isinstance(one, ast.Return))
    returned.value = ast.List(made, ast.Load())


def rows(source: str) -> list[Mapping[str, Any]]:
    """The rows of a parquet or JSONL file, or of a data set on the hub. Raises UserError if there are none, or columns lack."""
    path = Path(source).expanduser()
    if path.suffix in (".jsonl", ".ndjson"):
        found: list[Mapping[str, Any]] = [row for _, row in json_rows(path)]
    elif path.suffix == ".parquet":
        found = [*parquet_rows(path)]
    elif path.exists() or "/" not in source:
        raise UserError(
            f"{source}: pairs come from a .parquet or .jsonl file, or a hub name such as OWNER/NAME"
        )
    else:
        found = _hub_rows(source)
    if not found:
        raise UserError(f"{source}: holds no rows")
    missing = [" or ".join(names) for names in (REFERENCE, KERNEL) if not set(names) & set(found[0])]
    if missing:
        raise UserError(f"{source}: no column {' and '.join(missing)} (it has {', '.join(sorted(found[0]))})")
    return found


def _hub_rows(name: str) -> list[Mapping[str, Any]]:
    try:
        import datasets
    except ImportError:
        raise UserError(f"{name}: a hub name needs datasets; pip install 'kernelwright[train]'") from None
    try:
        return list(datasets.load_dataset(name, split="train"))
    except Exception as error:  # offline, removed, gated: the library raises whatever its client does
        raise UserError(
            f"{name}: the hub did not give it ({one_line(error, 160)}); download its parquet file and name that"
        ) from None


def _column(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((row[name] for name in names if row.get(name)), "")
