"""What a rung is: a class with a `name` that writes a kernel for a graph, so that another one is easily added.

A writer turns a graph into the text of one kernel. A climber (`model.py`, `tune.py`) may ask the judge in between. Both say
in one line why they have none.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from kernelwright.graph import Graph
from kernelwright.records import Task, Verdict
from kernelwright.search.cache import Answer, Rung


class CannotWrite(Exception):
    """Why a rung has no kernel for a graph, in one line."""


@runtime_checkable
class Writer(Protocol):
    """A rung with one answer."""

    name: Rung

    def write(self, graph: Graph, sizes: Sequence[Mapping[str, int]], seconds: float) -> str:
        """Text that defines `kernel`, within `seconds`; `sizes` are values of the graph's symbols that it must serve, too.
        Raises CannotWrite, and TimeoutError, which is not remembered."""
        ...


@dataclass(frozen=True)
class Climb:
    """What a climber works on."""

    graph: Graph
    task: Task
    best: Answer | None
    """The best verified kernel so far."""
    judge: Callable[[Sequence[str]], list[Verdict | None]]
    """Has kernels judged, all at once; what is better than `best` is kept. None for each where time ran out first."""
    until: float
    """Of the monotonic clock."""
    modules: bool = False
    """Whether a `ModelNew` with a constructor is an answer, too: the task is a module, not a graph."""

    @property
    def left(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()


@runtime_checkable
class Climber(Protocol):
    """A rung that has several kernels judged."""

    name: Rung

    def climb(self, climb: Climb) -> None:
        """Raises CannotWrite where there was nothing to judge, and TimeoutError, which is not remembered."""
        ...


AnyRung = Writer | Climber


def key_of(rung: AnyRung) -> str:
    """What a rung's answers are remembered under: its name, and whatever else they depend on behind a colon."""
    return str(getattr(rung, "key", rung.name))


def entry_of(code: str) -> Literal["kernel", "run", "module"]:
    """What a text is called by. Raises CannotWrite where it is not Python or has no such name."""
    names = _definitions(code)
    if "kernel" in names:
        return "kernel"
    if "run" in names:
        return "run"
    if "ModelNew" in names:
        return "module"
    raise CannotWrite("it defines neither kernel(...) nor class ModelNew")


def check_parameters(code: str, graph: Graph) -> None:
    """Raises CannotWrite where the `kernel` of a text, or its `ModelNew`, does not take the graph's arguments, or there is neither."""
    names = _definitions(code)
    node = names.get("kernel")
    own = 0
    if not isinstance(node, ast.FunctionDef) and isinstance(made := names.get("ModelNew"), ast.ClassDef):
        methods = [one for one in made.body if isinstance(one, ast.FunctionDef) and one.name == "forward"]
        node, own = next(iter(methods), None), 1
    if not isinstance(node, ast.FunctionDef):
        raise CannotWrite("it defines neither kernel(...) nor class ModelNew")
    taken = len(node.args.posonlyargs) + len(node.args.args) - own
    if not node.args.vararg and taken != len(graph.arguments):
        wanted = ", ".join(one.origin or one.name for one in graph.arguments)
        raise CannotWrite(f"it takes {taken} arguments, and the graph has {len(graph.arguments)}: {wanted}")


def _definitions(code: str) -> dict[str, ast.stmt]:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotWrite(f"it is not Python ({error})") from None
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
