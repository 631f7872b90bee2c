"""A whole module through the search of `kernelwright.optimize`, and its groups one by one through the ladder; as rows.

    ok          a stitched file with at least one own kernel was judged correct end to end
    kept        and is no slower than the faster of eager and torch.compile, both modelled: `optimize` would return it
    seconds     wall clock, which depends on other programs; `load` is the machine's load at the end of the row
    cpu         seconds of all processes together: on two otherwise idle cores the wall clock is below that
    own_nodes, own_us     the share in own kernels of the module's computing nodes and of its modelled eager time

Does not time kernels on a GPU.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from field.cause import cause
from kernelwright.api import searched
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.graph import Graph
from kernelwright.graph.capture import capture
from kernelwright.graph.partition import Group, part_of, partition
from kernelwright.hardware import target
from kernelwright.records import FASTER, Task
from kernelwright.search.cache import KernelCache
from kernelwright.search.cases import of_task
from kernelwright.search.ladder import pose
from kernelwright.search.rungs import rungs_of
from kernelwright.search.whole import ENOUGH, Found, Settings, examples_of, shrunk, sizes_of
from kernelwright.verify import opened
from kernelwright.verify.cost.eager import eager_ms

SECONDS = float(os.environ.get("WHOLE_SECONDS", "45"))
"""Budget of each module."""
Row = dict[str, Any]
Case = tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]


def measure_whole(case: Case) -> Row:
    """The fields above, `rungs`, `over_eager`, `over_compile`, `second` (seconds of a second call); after a failure `cause`
    and `message`."""
    module, args, kwargs = case

    def search(cache: KernelCache) -> tuple[Graph, Found]:
        captured, found = searched(
            module, args, kwargs, Settings(seconds=SECONDS), cache, backend="interpret"
        )
        return captured.graph, found

    return _measured(search)


def measure_task(task: Task) -> Row:
    """The same fields for a module that is a task (`field.py graphs`), which was captured elsewhere."""
    settings = Settings(seconds=SECONDS)
    case, rungs = (
        of_task(task, settings.contractions),
        rungs_of(settings.rungs, settings.target, settings.contractions),
    )

    def search(cache: KernelCache) -> tuple[Graph, Found]:
        judge = partial(opened.judge, None, "interpret", settings.protocol, settings.target, settings.workers)
        return case.graph, case.search(judge, lambda: rungs, cache, settings)

    return _measured(search)


def _measured(search: Callable[[KernelCache], tuple[Graph, Found]]) -> Row:
    began, spent = time.monotonic(), cpu_seconds()
    cache = KernelCache(None)
    row: Row = {"ok": False}
    try:
        graph, found = search(cache)
    except (UserError, InfrastructureError) as error:
        row |= {"cause": cause("whole", error), "message": " ".join(str(error).split())[:400]}
        return row | _time(began, spent)
    except Exception as error:  # our bugs count as failures, too
        row |= {
            "cause": f"whole: raised {type(error).__name__}",
            "message": " ".join(str(error).split())[:400],
        }
        return row | _time(began, spent)
    row |= _time(began, spent)
    if found.answer is None:
        return row | {"cause": reason(found.reason), "message": found.reason[:400]}
    timing = found.answer.verdict.timing
    row |= {"ok": True, "kept": timing is None or timing.speedup(FASTER) >= ENOUGH}
    row["rungs"] = sorted({one.rung for one in found.rows} - {"aten"}) or [found.answer.rung]
    if timing is not None:
        row |= {"over_eager": round(timing.speedup(), 2), "over_compile": round(timing.speedup("compile"), 2)}
    row |= _own(graph, found)
    began = time.monotonic()
    search(cache)
    return row | {"second": round(time.monotonic() - began, 2)}


def _own(graph: Graph, found: Found) -> Row:
    """Nodes and modelled eager time, in total and in own kernels."""
    sheet = target("h200")
    computing = [node for node in graph.nodes if part_of(node) != "free"]
    total = eager_ms(graph, sheet)
    if len(found.rows) == 1 and found.rows[0].count == 1 and found.rows[0].share == 1.0:
        left = [node for node in computing if _by_aten(node, found.answer.code)]
        own = total - eager_ms(graph, sheet, left)
        return _shares(len(computing) - len(left), len(computing), own, total)
    kept = sum(one.share for one in found.rows if one.rung != "aten")
    return _shares(round(kept * len(computing)), len(computing), kept * total, total)


def _by_aten(node: Any, code: str) -> bool:
    """Whether a contraction stayed with the library, that is, the code has no product of its own."""
    return part_of(node) == "contraction" and "tl.dot(" not in code


def _shares(own: int, nodes: int, own_ms: float, ms: float) -> Row:
    return {
        "own_nodes": own,
        "nodes": nodes,
        "own_us": round(1e3 * own_ms, 1),
        "eager_us": round(1e3 * ms, 1),
    }


def reason(text: str) -> str:
    """`Found.reason` in our own words, without names of the module's."""
    found = re.match(r"no kernel was verified \((?:\S+: )?(compiler|library): ([a-z ]+)", text)
    if found:
        return f"no kernel: {found[1]}: {found[2].strip()}"
    if refused := re.match(r"the whole was refused \(([a-z ]+)", text):
        return f"whole refused: {refused[1].strip()}"
    if "were spent before" in text:
        return "the budget ended"
    return re.split(r"[(:;]", text)[0][:60]


def _time(began: float, spent: float) -> Row:
    return {
        "seconds": round(time.monotonic() - began, 1),
        "cpu": round(cpu_seconds() - spent, 1),
        "load": round(os.getloadavg()[0], 1),
    }


def cpu_seconds() -> float:
    """CPU seconds of this process and its live descendants, including children that these have waited for."""
    tick, total = os.sysconf("SC_CLK_TCK"), 0.0
    children: dict[int, list[int]] = {}
    spent: dict[int, float] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:  # the process has just ended
            continue
        number = int(place.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        spent[number] = sum(map(int, fields[11:15])) / tick
    waiting = [os.getpid()]
    while waiting:
        number = waiting.pop()
        total += spent.get(number, 0.0)
        waiting += children.get(number, [])
    return total


def measure_groups(case: Case) -> Row:
    """`groups`: digest, count, nodes and modelled eager us of each distinct group; their tasks go to the folder FIELD_GROUPS."""
    module, args, kwargs = case
    began, spent = time.monotonic(), cpu_seconds()
    try:
        part = capture(module, args, kwargs, breaks=False).part
        graph, shapes = shrunk(part.graph, part.arguments)
        whole = partition(graph)
        examples = examples_of(whole, part.arguments)
        found = [
            _group(groups, examples[digest], sizes_of(graph, shapes, groups[0]))
            for digest, groups in whole.distinct().items()
        ]
    except Exception as error:  # any exception counts as failure
        row = {"ok": False, "cause": cause("groups", error), "message": " ".join(str(error).split())[:400]}
        return row | _time(began, spent)
    sheet = target("h200")
    total = {
        "nodes": sum(part_of(node) != "free" for node in graph.nodes),
        "eager_us": 1e3 * eager_ms(graph, sheet),
    }
    return {"ok": True, "groups": found, **total, **_time(began, spent)}


def _group(groups: list[Group], values: Any, shapes: Any) -> Row:
    group = groups[0]
    nodes = sum(part_of(node) != "free" for node in group.nodes)
    us = 1e3 * eager_ms(group.graph, target("h200"))
    row: Row = {"digest": group.graph.digest, "count": len(groups), "nodes": nodes, "eager_us": round(us, 1)}
    folder = Path(os.environ.get("FIELD_GROUPS", "field-groups"))
    place = folder / f"{group.graph.digest}.json"
    if not place.exists():
        folder.mkdir(parents=True, exist_ok=True)
        try:
            task = pose(group.graph, values, policy="partial", shapes=shapes, precision="default")
        except UserError as error:
            return row | {"unposed": cause("task", error)}
        place.write_text(task.model_dump_json())
    return row
