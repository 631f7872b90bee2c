"""What a rung is: a class with a `name` that writes kernels for a graph; add more by implementing a protocol below.

A Writer turns a graph into the source of one kernel. A Climber (`model.py`, `tune.py`) may ask the judge in between. Either
raises CannotWrite with the reason in one line if it has none.
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
    """A rung has no kernel for a graph; the message says why, in one line."""


@runtime_checkable
class Writer(Protocol):
    """A rung that writes one kernel."""

    name: Rung

    def write(self, graph: Graph, sizes: Sequence[Mapping[str, int]], seconds: float) -> str:
        """Source that defines `kernel`, written within `seconds`; `sizes` are values of the graph's symbols that it must also serve.
        Raises CannotWrite, or TimeoutError, which is not cached as a failure."""
        ...


@dataclass(frozen=True)
class Climb:
    """The input of a climber."""

    graph: Graph
    task: Task
    best: Answer | None
    """The best verified kernel so far."""
    judge: Callable[[Sequence[str]], list[Verdict | None]]
    """Judges kernels concurrently; those faster than `best` are kept. None for each that was not judged in time."""
    until: float
    """Deadline on the monotonic clock."""
    modules: bool = False
    """Whether a `ModelNew` with a constructor is accepted, too: the task is a module, not a graph."""

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.until - time.monotonic()


@runtime_checkable
class Climber(Protocol):
    """A rung that has several kernels judged."""

    name: Rung

    def climb(self, climb: Climb) -> None:
        """Raises CannotWrite if there was nothing to judge, and TimeoutError, which is not cached as a failure."""
        ...


AnyRung = Writer | Climber


def key_of(rung: AnyRung) -> str:
    """Cache key of a rung's results: its name, then after a colon whatever else they depend on."""
    return str(getattr(rung, "key", rung.name))


def entry_of(code: str) -> Literal["kernel", "run", "module"]:
    """How a source is called: a `run` beside a `ModelNew` is part of the module. Raises CannotWrite if it is not Python or defines no
    entry point."""
    names = definitions(code)
    if "kernel" in names:
        return "kernel"
    if "ModelNew" in names:
        return "module"
    if "run" in names:
        return "run"
    raise CannotWrite("it defines neither kernel(...) nor class ModelNew")


def has_run(code: str) -> bool:
    """Whether a source is a file that a search wrote, with a `ModelNew` around `run` or without. Raises CannotWrite if it is not
    Python."""
    names = definitions(code)
    return "run" in names and "kernel" not in names


def check_parameters(code: str, graph: Graph) -> None:
    """Raises CannotWrite if the source has neither `kernel` nor `ModelNew`, or it does not take the graph's arguments."""
    names = definitions(code)
    node = names.get("kernel")
    own = 0
    if not isinstance(node, ast.FunctionDef) and isinstance(made := names.get("ModelNew"), ast.ClassDef):
        methods = [one for one in made.body if isinstance(one, ast.FunctionDef) and one.name == "forward"]
        node, own = next(iter(methods), None), 1
    if not isinstance(node, ast.FunctionDef):
        raise CannotWrite("it defines neither kernel(...) nor class ModelNew")
    count = len(node.args.posonlyargs) + len(node.args.args) - own
    if not node.args.vararg and count != len(graph.arguments):
        wanted = ", ".join(one.origin or one.name for one in graph.arguments)
        raise CannotWrite(f"it takes {count} arguments, and the graph has {len(graph.arguments)}: {wanted}")


def definitions(code: str) -> dict[str, ast.stmt]:
    """Functions and classes of a source, by name. Raises CannotWrite if it is not Python."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotWrite(f"it is not Python ({error})") from None
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
