"""Modules of a file of `field.py graphs` under the clock, in a process of its own that speaks as worker.py does; and the table.
With `whole` they are searched for without a clock, as `field.py whole` does with modules.

A module is its graph's ATen calls, with weights drawn by its task. Forward only: eager, torch.compile, and
`backend="kernelwright"` with a search, timed by `backend.fixed`. Ours may be three times as far from fp64 as the worse of the other two.

The order is JSON on stdin: `file`, `part` (i, n), `search` in seconds, `dry`, `whole`, and the keys that are `done`. A lost CUDA context ends the
process, which costs its module.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import fx

from field.cause import cause
from field.graphs import static_of
from field.intervals import exact
from field.sources import MEASUREMENT_ONLY
from field.whole import measure_task
from field.worker import say
from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.graph.execute import execute
from kernelwright.graph.fx import to_fx
from kernelwright.records import Task
from kernelwright.synth.extents import holds

Row = dict[str, Any]
LOST = ("illegal", "launch failure", "device-side assert")


def modules_of(path: Path, part: Sequence[int] = (0, 1)) -> dict[str, Row]:
    """Rows of captured modules by key, those of one part of the file."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        lines = [json.loads(line) for line in file]
    found = {line["key"]: line["row"] for line in lines if line["row"] and line["row"].get("ok")}
    return {key: row for at, (key, row) in enumerate(found.items()) if at % part[1] == part[0]}


def main() -> None:
    """Reads the order, writes lines to the original stdout."""
    order = json.load(sys.stdin)
    lines, sys.stdout = sys.stdout, sys.stderr
    warnings.simplefilter("ignore")
    for key, row in modules_of(Path(order["file"]), order["part"]).items():
        if key in order["done"]:
            continue
        known = {name: row[name] for name in ("package", "model", "path", "class", "times")}
        say(lines, {"begin": key, "known": known})
        began = time.monotonic()
        try:
            if order["whole"]:
                found = measure_task(Task.model_validate(row["whole"]))
            else:
                found = rehearse_module(row) if order["dry"] else clock(row, order["search"])
        except Exception as error:  # any exception counts as failure
            if any(said in str(error) for said in LOST):
                print(error, file=sys.stderr)
                os._exit(1)
            found = {
                "ok": False,
                "cause": cause("clock", error),
                "message": " ".join(str(error).split())[:400],
            }
        if row["package"] in MEASUREMENT_ONLY:
            found.pop("message", None)
        say(lines, {"key": key, "row": known | found | {"seconds": round(time.monotonic() - began, 1)}})


def clock(row: Row, search: float) -> Row:
    """`backend.fixed`'s row of the module, `error` by way and `ok`."""
    from backend import fixed
    from schedule_problems import problem_of
    from schedules import draw

    from kernelwright.compile_backend import use_source

    problem = problem_of(Task.model_validate(row["whole"]))
    torch.manual_seed(0)
    values = draw(problem)
    module, inputs = as_module(problem.graph, values, "cuda")
    torch._dynamo.reset()
    use_source(None)
    found, made = fixed("forward", module, inputs, search, False)
    with torch.no_grad():
        errors = errors_of(problem.graph, values, {name: one(*inputs) for name, one in made.items()})
    ok = not errors["ours"] > 3 * max(errors["eager"], errors["compile"]) + 1e-5
    found |= {"ok": ok, "error": errors, "gpu": torch.cuda.get_device_name()}
    return found if ok else found | {"cause": "clock: wrong"}


def as_module(
    graph: Graph, values: dict[str, Any], device: str = "cpu"
) -> tuple[fx.GraphModule, tuple[Any, ...]]:
    """(the graph as a module that holds its weights, buffers and constants; its inputs)."""
    made = to_fx(graph, device=device)
    roles = {one.name: one.role for one in graph.arguments}
    names = iter([one.name for one in graph.arguments])
    for node in [one for one in made.graph.nodes if one.op == "placeholder"]:
        name = next(names)
        if roles[name] == "input" or not isinstance(values[name], torch.Tensor):
            continue
        if roles[name] == "weight" and values[name].is_floating_point():
            made.register_parameter(f"held_{name}", torch.nn.Parameter(values[name], requires_grad=False))
        else:
            made.register_buffer(f"held_{name}", values[name])
        with made.graph.inserting_before(node):
            node.replace_all_uses_with(made.graph.get_attr(f"held_{name}"))
        made.graph.erase_node(node)
    made.recompile()
    inputs = (
        values[name]
        for name in values
        if roles[name] == "input" or not isinstance(values[name], torch.Tensor)
    )
    return made.eval(), tuple(inputs)


def errors_of(graph: Graph, values: dict[str, Any], got: dict[str, tuple[Any, ...]]) -> dict[str, float]:
    """Largest error of each way over the result's root mean square: from fp64, or from eager where fp64 does not run."""
    from schedules import error_of

    try:
        reference = execute(graph, values, fp64=True)
    except (UserError, torch.OutOfMemoryError):
        reference = got["eager"]
    return {name: error_of(one, reference) for name, one in got.items()}


def rehearse_module(row: Row) -> Row:
    """Without a GPU: the module at its small sizes against its graph and fp64, its full sizes without data, and the first
    schedule of each group compiled for sm_90."""
    from modelled import rehearse
    from schedule_problems import problem_of
    from schedules import attempts, fits

    task = Task.model_validate(row["whole"])
    small = task.shapes.get("small", {})
    graph = static_of(task, {name.lower(): size for name, size in small.items()})
    names: dict[str, Any] = {}
    exec(task.source, names)  # printed by us
    torch.manual_seed(0)
    names.update(small)
    drawn = names["get_inputs"]()
    values = {one.name: value for one, value in zip(graph.arguments, drawn, strict=True)}
    module, inputs = as_module(graph, values)
    with torch.no_grad():
        got = {"eager": module(*inputs), "graph": execute(graph, values)}
    errors = errors_of(graph, values, got)
    compiled: Counter[str] = Counter()
    for one in row["groups"]:
        problem = problem_of(Task.model_validate(one["task"])) if "task" in one else None
        first = attempts(problem, Path("."), 1) if problem and fits(problem) else []
        said = rehearse(first[0].code, problem.graph) if first and problem else "no schedule"
        compiled["compiled" if "registers" in said else said[:60]] += 1
    ok = errors["eager"] == errors["graph"] and holds(static_of(task), {})
    return {"ok": ok, "error": errors, "groups": dict(compiled)} | ({} if ok else {"cause": "clock: apart"})


# -- the table ------------------------------------------------------------------------------------------------------


def ratio(row: Row) -> tuple[float, float, float]:
    """Median of torch.compile's time over ours, round by round, and its exact interval of about 95 % (order statistics)."""
    if not row["ok"]:
        return 1.0, 1.0, 1.0
    pairs = zip(row["rounds"]["compile"], row["rounds"]["ours"], strict=True)
    found = sorted(theirs / ours for theirs, ours in pairs)
    count = len(found)
    below = [sum(math.comb(count, i) for i in range(k + 1)) / 2**count for k in range(count // 2)]
    rank = max((k for k, share in enumerate(below) if share <= 0.025), default=0)
    return statistics.median(found), found[rank], found[count - 1 - rank]


def geometric(ratios: Sequence[float], draws: int = 10_000) -> tuple[float, float, float]:
    """The geometric mean and its bootstrap interval of 95 %."""
    logs, generator = [math.log(one) for one in ratios], random.Random(0)
    means = sorted(statistics.fmean(generator.choices(logs, k=len(logs))) for _ in range(draws))
    low, high = means[int(0.025 * draws)], means[int(0.975 * draws)]
    return math.exp(statistics.fmean(logs)), math.exp(low), math.exp(high)


def clocked(file: Path, out: Path) -> str:
    """The tables of modules and groups, open packages and those for measurement only apart."""
    modules = modules_of(file)
    rows = [
        line["row"] for line in map(json.loads, (out / "rows.jsonl").read_text().splitlines())
        if line["key"] in modules
    ]  # fmt: skip
    lines = [f"modules: {len(modules)} captured, {len(rows)} clocked"]
    lines += [
        "| packages | modules | failed, as 1x | faster | slower | over torch.compile, geometric | over eager | a kernel kept |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, kinds in _KINDS:
        chosen = [row for row in rows if (row["package"] in MEASUREMENT_ONLY) in kinds]
        lines += [_modules_line(name, chosen)] if chosen else []
    causes = Counter(row["cause"] for row in rows if not row["ok"])
    causes["not finite in eager, so unchecked"] = sum(
        math.isinf(row["error"]["eager"]) for row in rows if row["ok"]
    )
    lines += [f"{count:5}  {why}" for why, count in causes.most_common() if count]
    measured = _measured(out / "groups" / "rows.jsonl")
    lines += [
        "",
        "| packages | groups | measured | ours faster | of all | of measured |",
        "|---|---|---|---|---|---|",
    ]
    for name, kinds in _KINDS:
        chosen = [row for row in modules.values() if (row["package"] in MEASUREMENT_ONLY) in kinds]
        lines += [_groups_line(name, chosen, measured)] if chosen else []
    return "\n".join(lines)


_KINDS = (("open", (False,)), ("measurement only", (True,)), ("all", (False, True)))


def _modules_line(name: str, rows: Sequence[Row]) -> str:
    found = [ratio(row) for row in rows]
    failed = sum(not row["ok"] for row in rows)
    faster, slower = sum(low > 1 for _, low, _ in found), sum(high < 1 for _, _, high in found)
    over, eager = (
        "{:.3f} [{:.3f}, {:.3f}]".format(*geometric(some))
        for some in (
            [middle for middle, _, _ in found],
            [row["over"]["eager"] if row["ok"] else 1.0 for row in rows],
        )
    )
    kept = sum(bool(row.get("kept")) for row in rows)
    cells = [name, len(rows), failed, _share(faster, len(rows)), _share(slower, len(rows)), over, eager, kept]
    return f"| {' | '.join(map(str, cells))} |"


def _groups_line(name: str, modules: Iterable[Row], measured: dict[str, float]) -> str:
    """Distinct groups; those without a task, a schedule or a time are slower in the share of all."""
    groups = {one["task"]["id"] if "task" in one else f"{at} {n}" for at, row in enumerate(modules)
              for n, one in enumerate(row["groups"])}  # fmt: skip
    known = [measured[one] for one in groups if one in measured]
    faster = sum(one > 1 for one in known)
    cells = [name, len(groups), len(known), faster, _share(faster, len(groups)), _share(faster, len(known))]
    return f"| {' | '.join(map(str, cells))} |"


def _measured(path: Path) -> dict[str, float]:
    """Group -> the faster of eager and torch.compile over our best schedule, of groups whose schedules were all measured or timed out."""
    times: dict[str, dict[str, float]] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        if "ms" in row:
            kind = "ours" if row.get("final") else row["plan"]
            times.setdefault(row["problem"], {})[kind] = min(
                row["ms"], times.get(row["problem"], {}).get(kind, math.inf)
            )
    return {
        name: min(one["eager"], one.get("compile", math.inf)) / one["ours"]
        for name, one in times.items()
        if "eager" in one and "ours" in one
    }


def _share(good: int, count: int) -> str:
    if not count:
        return "0 of 0"
    low, high = exact(good, count)
    return f"{good} of {count}, {good / count:.0%} [{low:.0%}, {high:.0%}]"


if __name__ == "__main__":
    main()
