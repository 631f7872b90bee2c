"""A softmax in function form, for tests: its graph, task, plans with the printed code, and pairs."""

from __future__ import annotations

from typing import Any

from kernelwright.graph.structure import structure
from kernelwright.graph.types import Graph
from kernelwright.prompts import completion_text
from kernelwright.records import Pair, Shown, Task
from kernelwright.synth.building import GraphBuilder
from kernelwright.synth.plan import print_plan
from kernelwright.synth.program import Program, RowSchedule
from kernelwright.synth.to_triton import label_of, print_triton


def softmax_graph(rows: int = 64, columns: int = 256) -> Graph:
    builder = GraphBuilder("softmax")
    x = builder.input("x", "float32", (rows, columns))
    return builder.graph(builder.op("aten.softmax.int", x, -1))


def softmax_task(rows: int = 64, columns: int = 256) -> Task:
    from kernelwright.graph.task import to_task

    return to_task(softmax_graph(rows, columns), f"graph/softmax-{rows}x{columns}", shapes={"small": {}})


def written(graph: Graph, **decisions: Any) -> tuple[str, str]:
    """(plan, code) of a row schedule."""
    schedule = RowSchedule(**decisions)
    code = print_triton(Program(graph=graph, schedule=schedule))
    return print_plan(label_of(graph), schedule), code


def pair(us: float = 4.0, **fields: Any) -> Pair:
    graph, task = softmax_graph(), softmax_task()
    plan, code = written(graph, warps=4)
    shared: dict[str, Any] = {
        "task": task, "digest": graph.digest, "structure": structure(graph), "label": "softmax", "source": "catalogue",
        "precision": "default", "target": "h200", "plan": plan, "code": code, "us": us, "best_us": 4.0,
    }  # fmt: skip
    return Pair(**{**shared, **fields})


def improving() -> Pair:
    """A pair that shows a slower kernel."""
    plan, code = written(softmax_graph(), warps=1)
    return pair(kind="improve", shown=Shown(plan=plan, code=code, feedback="time: 0.008 ms modelled", us=8.0))


def said(plan: str, code: str) -> str:
    """A completion."""
    return completion_text(plan, code)
