"""Who writes kernels: the rungs of the ladder, from a user's own kernel to the compiler and the library of programs.

    rungs_of(("compiler", "library"), "h200", "own")        in the order in which they are asked

A writer turns a graph into the text of one kernel. A climber (`model.py`, `tune.py`) may ask the judge in between. Both say
in one line why they have none; both are classes with a `name`, so that another one is easily added.

Does not guarantee that what they write is right: the ladder has it judged.
"""

from __future__ import annotations

import ast
import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.records import Task, Verdict
from kernelwright.search.cache import Answer, Rung

Contractions = Literal["own", "auto"]
NAMES: tuple[str, ...] = ("compiler", "library", "model", "tune")
"""Rungs that can be asked for by name, in order."""


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
    hear: Callable[[Sequence[str]], list[Verdict | None]]
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


def rungs_of(
    names: Sequence[str],
    target: str,
    contractions: Contractions,
    *,
    precision: str = "default",
    model: str = "default",
    samples: int = 8,
) -> list[AnyRung]:
    """The ladder of these rungs. Raises UserError for an unknown name."""
    made: list[AnyRung] = []
    for name in names:
        if name == "compiler":
            made.append(CompilerRung(target, contractions))
        elif name == "library":
            made.append(LibraryRung(target, "tf32" if precision == "tf32" else "ieee"))
        elif name == "model":
            from kernelwright.search.model import ModelRung

            made.append(ModelRung(model, target, samples=samples))
        elif name == "tune":
            from kernelwright.search.tune import TuneRung

            made.append(TuneRung())
        else:
            raise UserError(f"unknown rung {name!r}; valid: {', '.join(NAMES)}")
    return made


class CompilerRung:
    """Inductor's kernels, rewritten to our form."""

    name: Rung = "compiler"

    def __init__(self, target: str, contractions: Contractions = "own") -> None:
        self.target, self.contractions = target, contractions
        self._lock = threading.Lock()  # one helper process, one question at a time

    def start(self) -> None:
        """Begin to warm up what a first answer would wait for; returns at once."""
        from kernelwright.policy.compiler import start

        start(self.target)

    def write(self, graph: Graph, sizes: Sequence[Mapping[str, int]], seconds: float) -> str:
        from kernelwright.policy.compiler import CannotCompile, write

        ways: tuple[Contractions, ...] = ("own",) if self.contractions == "own" else ("auto", "own")
        said = ""
        for way in ways:
            try:
                with self._lock:
                    return write(graph, contractions=way, target=self.target, sizes=sizes, seconds=seconds)
            except CannotCompile as error:
                if str(error).startswith("timeout"):
                    raise TimeoutError(str(error)) from None
                said = said or str(error)
        raise CannotWrite(said)


class LibraryRung:
    """A program of the library with its best known schedule."""

    name: Rung = "library"

    def __init__(self, target: str, precision: str = "ieee") -> None:
        self.target, self.precision = target, precision

    def write(self, graph: Graph, sizes: Sequence[Mapping[str, int]], seconds: float) -> str:
        from kernelwright.synth.library import program_of
        from kernelwright.synth.primitives import Unsupported
        from kernelwright.synth.to_triton import print_triton

        try:
            program = program_of(graph, self.target, self.precision)
            if program is None:
                raise CannotWrite("no loop nest of the library fits the graph")
            return print_triton(program)
        except Unsupported as why:
            raise CannotWrite(str(why)) from None
        except (KeyError, ValueError, IndexError) as error:  # sizes of a form that its printers do not know
            raise CannotWrite(f"the library has no form for the graph ({type(error).__name__})") from None


class UserRung:
    """A kernel that the user has already, for the whole of what is optimized."""

    name: Rung = "user"

    def __init__(self, code: str) -> None:
        self.code = code
        self.key = f"user:{hashlib.sha256(code.encode()).hexdigest()[:12]}"

    def write(self, graph: Graph, sizes: Sequence[Mapping[str, int]], seconds: float) -> str:
        if entry_of(self.code) == "module":
            return self.code
        taken = parameters(self.code)
        if taken is not None and taken != len(graph.arguments):
            names = ", ".join(one.origin or one.name for one in graph.arguments)
            raise CannotWrite(
                f"kernel takes {taken} arguments, and the graph has {len(graph.arguments)}: {names}"
            )
        return self.code


def entry_of(code: str) -> Literal["kernel", "run", "module"]:
    """What a text is called by. Raises CannotWrite where it is not Python or has no such name."""
    names = _defined(code)
    if "kernel" in names:
        return "kernel"
    if "run" in names:
        return "run"
    if "ModelNew" in names:
        return "module"
    raise CannotWrite("it defines neither kernel(...) nor class ModelNew")


def parameters(code: str) -> int | None:
    """How many arguments the `kernel` of a text takes; None with `*args`. Raises CannotWrite where there is none."""
    node = _defined(code).get("kernel")
    if not isinstance(node, ast.FunctionDef):
        raise CannotWrite("it defines neither kernel(...) nor class ModelNew")
    return None if node.args.vararg else len(node.args.posonlyargs) + len(node.args.args)


def _defined(code: str) -> dict[str, ast.stmt]:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise CannotWrite(f"it is not Python ({error})") from None
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
