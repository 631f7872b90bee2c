"""Kernels for graphs, rung by rung: what is known, the compiler's, the library's; each is judged, the best one kept.

    ladder = Ladder(verifier, [CompilerRung("h200")], KernelCache(folder), target="h200", contractions="own")
    ladder.lookup(graph)                            what is known of a graph: an Entry, or None; milliseconds
    ladder.search(graph, until=time.monotonic() + 20)    asks the rungs that were not asked yet, in order

A rung writes text that defines `kernel` on the graph's arguments, or says in one line why it has none. Answers and
failures are cached. Another rung is a class with `name` and `write`.

Does not guarantee a kernel, nor that the one it has is faster than ATen: whoever uses it compares.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, Literal, Protocol

from kernelwright.errors import UserError
from kernelwright.graph import Graph
from kernelwright.graph.stitch import candidate
from kernelwright.graph.task import to_task
from kernelwright.outcomes import Outcome
from kernelwright.precision import named, precision_of
from kernelwright.records import Candidate, Task, Verdict
from kernelwright.rollouts import Verifier
from kernelwright.search.cache import Answer, Entry, KernelCache, Key, Rung, against_inductor

Contractions = Literal["own", "auto"]
Sizes = Mapping[str, Mapping[str, int]]
"""Shape set -> symbol -> size."""
SMALL = ((4, 6, 5), (3, 7, 9))
"""Sizes of symbols, in order, of the small shape sets `small` and `small_odd`; repeated where there are more symbols."""


class CannotWrite(Exception):
    """Why a rung has no kernel for a graph, in one line."""


class Writer(Protocol):
    """A rung."""

    name: Rung

    def write(self, graph: Graph, task: Task, seconds: float) -> str:
        """Text that defines `kernel`, within `seconds`. Raises CannotWrite, and TimeoutError, which is not remembered."""
        ...


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

    def write(self, graph: Graph, task: Task, seconds: float) -> str:
        from kernelwright.policy.compiler import CannotCompile, write

        sets = [{name.lower(): size for name, size in one.items()} for one in task.shapes.values() if one]
        ways: tuple[Contractions, ...] = ("own",) if self.contractions == "own" else ("auto", "own")
        said = ""
        for way in ways:
            try:
                with self._lock:
                    return write(graph, contractions=way, target=self.target, sizes=sets, seconds=seconds)
            except CannotCompile as error:
                if str(error).startswith("timeout"):
                    raise TimeoutError(str(error)) from None
                said = said or str(error)
        raise CannotWrite(said)


class LibraryRung:
    """A program of the library with its best known schedule."""

    name: Rung = "library"

    def __init__(self, target: str) -> None:
        self.target = target

    def write(self, graph: Graph, task: Task, seconds: float) -> str:
        from kernelwright.synth.library import program_of
        from kernelwright.synth.primitives import Unsupported
        from kernelwright.synth.to_triton import print_triton

        try:
            precision = "tf32" if precision_of(task).products else "ieee"
            program = program_of(graph, self.target, precision)
            if program is None:
                raise CannotWrite("no loop nest of the library fits the graph")
            return print_triton(program)
        except Unsupported as why:
            raise CannotWrite(str(why)) from None
        except (KeyError, ValueError, IndexError) as error:  # sizes of a form that its printers do not know
            raise CannotWrite(f"the library has no form for the graph ({type(error).__name__})") from None


class UserRung:
    """A kernel that the user has already, for one graph."""

    name: Rung = "user"

    def __init__(self, code: str, digest: str) -> None:
        self.code, self.digest = code, digest

    def write(self, graph: Graph, task: Task, seconds: float) -> str:
        if graph.digest != self.digest:
            raise CannotWrite("the user's kernel is for another graph")
        return self.code


def pose(
    graph: Graph,
    values: Mapping[str, Any] | None = None,
    *,
    policy: Literal["full", "partial"] = "full",
    shapes: Sizes | None = None,
    precision: str = "default",
) -> Task:
    """The task of a graph, at small sizes of its symbols: `shapes`, where given. Raises UserError where no draw of its
    arguments serves."""
    sets: dict[str, dict[str, int]] = {name: dict(one) for name, one in (shapes or {}).items()}
    if not graph.symbols:
        sets = {"small": {}}
    elif not sets:
        for name, sizes in zip(("small", "small_odd"), SMALL, strict=True):
            sets[name] = {
                one.name: max(one.least, min(sizes[at % len(sizes)], one.most or one.hint, one.hint))
                for at, one in enumerate(graph.symbols)
            }
    task = to_task(graph, f"graph/{graph.name}-{graph.digest}", values=values, shapes=sets)
    task = task.model_copy(update={"policy": policy, "min_share": 0.0 if policy == "partial" else 1.0})
    return task.model_copy(update={"precision": named(precision)})


class Ladder:
    """Rungs, a judge and a cache. Thread-safe: several graphs may be searched at once."""

    def __init__(
        self,
        verifier: Verifier,
        rungs: Sequence[Writer],
        cache: KernelCache,
        *,
        target: str = "h200",
        contractions: Contractions = "own",
        precision: str = "default",
        protocol: str = "strict",
        gpu: str = "",
        watch: Callable[[str, str, str], object] = lambda graph, rung, what: None,
    ) -> None:
        """`watch` is told (graph's name, rung, what came of it) from any thread."""
        self.verifier, self.rungs, self.cache, self.watch = verifier, list(rungs), cache, watch
        self.facts: dict[str, Any] = {
            "target": target, "contractions": contractions, "precision": precision, "protocol": protocol, "gpu": gpu,
        }  # fmt: skip

    def key(self, graph: Graph) -> Key:
        return Key.of(graph, **self.facts)

    def lookup(self, graph: Graph) -> Entry | None:
        """What is known of a graph, without searching."""
        known = self.cache.get(self.key(graph))
        return known and _fair(known)

    def search(
        self,
        graph: Graph,
        *,
        until: float | None = None,
        values: Mapping[str, Any] | None = None,
        shapes: Sizes | None = None,
        posed: Graph | None = None,
        task: Task | None = None,
        written: Callable[[str, Rung], str] | None = None,
    ) -> Entry:
        """Ask every rung that was not asked before, until the monotonic clock is at `until`; what is known then.

        `values` are example values by argument: weights as they are, so that draws are like them. `shapes` are small values
        of the graph's symbols. `posed` is the same graph with its free sizes as symbols: rungs and judge see that. `task` is
        what `pose` makes of all that, where it is known; `written` makes the text that is judged of a rung's, by default one
        that calls the kernel. A rung that runs out of time is not noted as failed.
        """
        known = self.lookup(graph) or Entry()
        waiting = [rung for rung in self.rungs if rung.name not in known.tried]
        if not waiting:
            return known
        policy: Literal["full", "partial"] = "full" if self.facts["contractions"] == "own" else "partial"
        try:
            task = task or pose(
                posed or graph, values, policy=policy, shapes=shapes, precision=self.facts["precision"]
            )
        except UserError as error:
            return self.cache.put(self.key(graph), Entry(tried={rung.name: str(error) for rung in waiting}))
        for rung in waiting:
            if until is not None and time.monotonic() >= until:
                break
            made = written or (lambda code, rung: candidate(code, posed or graph))
            found = self._ask(rung, graph, posed or graph, task, until, made)
            if found is None:
                break
            self.watch(graph.name, rung.name, found.tried[rung.name])
            known = self.cache.put(self.key(graph), found)
        return _fair(known)

    def judge(self, task: Task, code: str, until: float | None = None) -> Verdict | None:
        """A verdict, waited for; None where time runs out first."""
        future = self.verifier.submit(task, Candidate(code=code))
        try:
            return future.result(None if until is None else max(0.0, until - time.monotonic()))
        except (FutureTimeout, CancelledError):
            future.cancel()
            return None

    def _ask(
        self, rung: Writer, graph: Graph, posed: Graph, task: Task, until: float | None,
        written: Callable[[str, Rung], str],
    ) -> Entry | None:  # fmt: skip
        """What came of one rung; None where time ran out or the judge failed."""
        seconds = 60.0 if until is None else max(1.0, until - time.monotonic())
        try:
            code = rung.write(posed, task, seconds)
        except TimeoutError:
            return None
        except CannotWrite as why:
            return Entry(tried={rung.name: one_line(str(why))})
        try:
            verdict = self.judge(task, written(code, rung.name), until)
        except UserError as error:  # of the graph, as it is posed: no rung can help
            return Entry(tried={rung.name: one_line(str(error))})
        if verdict is None or verdict.outcome is Outcome.INFRASTRUCTURE_ERROR:
            return None
        if not verdict.correct:
            said = f"{verdict.outcome.value.replace('_', ' ')}: {verdict.detail}"
            return Entry(tried={rung.name: one_line(said)})
        best = Answer(graph=graph.digest, rung=rung.name, code=code, verdict=verdict)
        # With products of its own it is not what torch.compile runs by default.
        inductors = rung.name == "compiler" and verdict.timing and "tl.dot(" not in code
        return Entry(best=best, tried={rung.name: "verified"}, inductor_ms=best.ms if inductors else None)


def _fair(entry: Entry) -> Entry:
    if entry.best is None:
        return entry
    verdict = against_inductor(entry.best.verdict, entry.inductor_ms)
    return entry.model_copy(update={"best": entry.best.model_copy(update={"verdict": verdict})})


def one_line(text: str) -> str:
    return " ".join(text.split())[:240]
