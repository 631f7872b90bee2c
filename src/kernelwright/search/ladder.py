"""Kernels for graphs, rung by rung: cached results, then what each rung writes; every kernel is judged, the best one kept.

    ladder = Ladder(verifier, rungs_of(("compiler", "library"), "h200", "own"), KernelCache(folder), contractions="own")
    ladder.lookup(graph)                            the cached Entry of a graph, or None; takes milliseconds
    ladder.search(graph, until=time.monotonic() + 20)    asks the rungs that were not asked yet, in order

Answers and failures are cached. Guarantees neither a kernel nor that it is faster than ATen: the caller
compares.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, Literal

from kernelwright.errors import InfrastructureError, UserError, one_line
from kernelwright.graph import Graph
from kernelwright.graph.stitch import candidate
from kernelwright.graph.task import to_task
from kernelwright.outcomes import Outcome
from kernelwright.precision import check_name
from kernelwright.records import FASTER, Candidate, Task, Verdict
from kernelwright.rollouts import Verifier
from kernelwright.search.cache import Answer, Entry, KernelCache, Key, Rung, against_inductor, faster_of
from kernelwright.search.rung import AnyRung, CannotWrite, Climb, Writer, entry_of, key_of
from kernelwright.search.rungs import Contractions
from kernelwright.verify.pool import VerifierPool

__all__ = [
    "CannotWrite", "Contractions", "Form", "Ladder", "Sizes", "Tried", "function_form", "pose",
]  # fmt: skip

Sizes = Mapping[str, Mapping[str, int]]
"""Shape set -> symbol -> size."""
SMALL = ((4, 6, 5), (3, 7, 9))
"""Sizes of symbols, in order, in the shape sets `small` and `small_odd`; repeated if there are more symbols."""


@dataclass(frozen=True)
class Tried:
    """One attempt, reported to the watcher."""

    graph: str
    """The graph's name."""
    rung: str
    what: str
    """The result, in one line."""
    task: Task | None = None
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    """None if nothing was judged."""


Watch = Callable[[Tried], object]
"""Called with every attempt, from any thread."""


@dataclass(frozen=True)
class Form:
    """How to present kernels of a graph to the judge: as candidates for `task`, with `text` as the wrapper."""

    task: Task
    text: Callable[[str, Rung], str]
    """(source that defines `kernel`, `run` or `ModelNew`; rung that wrote it) -> the candidate's code."""
    modules: bool = True
    """Whether the task is a module with a constructor, not a graph."""


def function_form(
    graph: Graph,
    values: Mapping[str, Any] | None = None,
    shapes: Sizes | None = None,
    policy: Literal["full", "partial"] = "full",
    precision: str = "default",
    free: Collection[str] = (),
) -> Form:
    """The graph as a task in function form. `free`: symbols whose whole range kernels must serve. Raises
    UserError if no inputs can be drawn for its arguments."""
    task = pose(graph, values, policy=policy, shapes=shapes, precision=precision, free=free)
    return graph_form(task, graph)


def graph_form(task: Task, graph: Graph) -> Form:
    """The form of a graph's task."""

    def text(code: str, rung: Rung) -> str:
        entry = entry_of(code)
        return code if entry == "module" else candidate(code, graph, entry)

    return Form(task, text, modules=False)


class Ladder:
    """Rungs, a judge and a cache. Thread-safe: several graphs may be searched at once."""

    def __init__(
        self,
        verifier: Verifier,
        rungs: Sequence[AnyRung],
        cache: KernelCache,
        *,
        target: str = "h200",
        contractions: Contractions = "own",
        precision: str = "default",
        protocol: str = "strict",
        gpu: str = "",
        watch: Watch = lambda tried: None,
    ) -> None:
        self.verifier, self.rungs, self.cache, self.watch = verifier, list(rungs), cache, watch
        self.abandoned: list[Future[Verdict]] = []
        """Verdicts that time ran out for while they were being made."""
        self.under_way = "while the judge and the compiler started"
        """What was begun last, in words."""
        self.facts: dict[str, Any] = {
            "target": target, "contractions": contractions, "precision": precision, "protocol": protocol, "gpu": gpu,
        }  # fmt: skip

    def key(self, graph: Graph, form: Form | None = None) -> Key:
        return Key.of(graph, task=form.task.digest if form and form.modules else "", **self.facts)

    def lookup(self, graph: Graph, form: Form | None = None) -> Entry | None:
        """The cached entry of a graph, without searching."""
        known = self.cache.get(self.key(graph, form))
        return known and _fair(known)

    def search(
        self,
        graph: Graph,
        *,
        until: float | None = None,
        wait: float | None = None,
        values: Mapping[str, Any] | None = None,
        shapes: Sizes | None = None,
        symbolic: Graph | None = None,
        form: Form | None = None,
        free: Collection[str] = (),
        least: float = 0.0,
    ) -> Entry:
        """Ask every rung that was not asked before, until the monotonic clock reaches `until`; returns the entry afterwards. A
        pending verdict is awaited until `wait`.

        `values` are example values by argument, such as the real weights, so that inputs are drawn like them. `shapes` are small
        values of the graph's symbols. `symbolic` is the same graph with its free sizes as symbols, shown to rungs and judge. `form`:
        how to present kernels to the judge, by default in function form. `free`: symbols whose whole range kernels must serve.
        `least`: a kernel whose modelled speedup is lower is not judged, and without a GPU one that reaches it ends the search. A rung that runs out of time is not cached as failed.
        """
        key = self.key(graph, form)
        known = self.cache.get(key) or Entry()
        waiting = [rung for rung in self.rungs if key_of(rung) not in known.tried]
        if not waiting:
            return _fair(known)
        symbolic = symbolic or graph
        policy: Literal["full", "partial"] = "full" if self.facts["contractions"] == "own" else "partial"
        try:
            form = form or function_form(symbolic, values, shapes, policy, self.facts["precision"], free)
        except UserError as error:
            return self.cache.put(key, Entry(tried={key_of(rung): str(error) for rung in waiting}))
        for rung in waiting:
            if (until is not None and time.monotonic() >= until) or self._settled(known, least):
                break
            sizes = list((shapes or {}).values())
            late = until if wait is None else wait
            request = _Request(self, rung, graph, symbolic, form, sizes, known.best, until, late, least)
            what = request.ask()
            if what is None:
                break
            known = self.cache.put(
                key, Entry(best=request.best, tried={key_of(rung): what}, inductor_ms=request.inductor_ms)
            )
            if not request.judged:
                self.watch(Tried(graph.name, rung.name, what))
        return _fair(known)

    def _settled(self, known: Entry, least: float) -> bool:
        """Whether a kernel is worth it, by a model: modelled times cannot decide between two that are."""
        timing = known.best.verdict.timing if known.best and not self.facts["gpu"] else None
        return bool(least) and timing is not None and timing.speedup(FASTER) >= least

    def slower(self, task: Task, code: str, least: float, until: float | None = None) -> str:
        """Why a kernel is not worth a verdict, in one line: its modelled speedup over the faster baseline is below `least`. "" if it
        is not, or if that cannot be told."""
        if not isinstance(self.verifier, VerifierPool) or self.verifier.gpus:
            return ""
        pricing = self.verifier.price(task, Candidate(code=code))
        try:
            timing = pricing.result(None if until is None else max(0.0, until - time.monotonic()))
        except (FutureTimeout, CancelledError):
            pricing.cancel()
            return ""
        if timing is None or timing.speedup(FASTER) >= least:
            return ""
        return f"not judged: {timing.speedup(FASTER):.2f} times as fast as ATen ({timing.kind} on {timing.target})"

    def judge(self, task: Task, code: str, until: float | None = None) -> Verdict | None:
        """Wait for a verdict; None if time runs out first."""
        return self.judged(task, [code], until)[0]

    def judged(self, task: Task, codes: Sequence[str], until: float | None = None) -> list[Verdict | None]:
        """Judge several kernels concurrently; None for each that time runs out for."""
        futures = [self.verifier.submit(task, Candidate(code=code)) for code in codes]
        found: list[Verdict | None] = []
        for future in futures:
            try:
                found.append(future.result(None if until is None else max(0.0, until - time.monotonic())))
            except (FutureTimeout, CancelledError):
                if not future.cancel():
                    self.abandoned.append(future)
                found.append(None)
        return found


@dataclass
class _Request:
    """One request to a rung about one graph."""

    ladder: Ladder
    rung: AnyRung
    graph: Graph
    symbolic: Graph
    form: Form
    sizes: Sequence[Mapping[str, int]]
    best: Answer | None
    until: float | None
    wait: float | None
    least: float
    judged: int = 0
    failed: str = ""
    """The judge's reason for the rejected kernel that passed most gates."""
    inductor_ms: float | None = None
    """Time of Inductor's own kernels."""
    _depth: int = -1
    _better: bool = False

    def ask(self) -> str | None:
        """Run the rung. Returns its result in one line, `verified` if it gave a kernel; None if time ran out or the judge failed."""
        left = 60.0 if self.until is None else max(1.0, self.until - time.monotonic())
        try:
            self.ladder.under_way = f"while {self.rung.name} wrote a kernel for {self.graph.name}"
            if isinstance(self.rung, Writer):
                code = self.rung.write(self.symbolic, self.sizes, left)
                if self.least:
                    text = self.form.text(code, self.rung.name)
                    if why := self.ladder.slower(self.form.task, text, self.least, self.wait):
                        return why
                [verdict] = self.judge([code])
                if verdict is None or verdict.outcome is Outcome.INFRASTRUCTURE_ERROR:
                    return None
                return "verified" if verdict.correct else self.failed
            before = self.judged
            until = self.until or time.monotonic() + left
            self.rung.climb(
                Climb(self.symbolic, self.form.task, self.best, self.judge, until, self.form.modules)
            )
            return "verified" if self._better else self.failed or f"none of {self.judged - before} is faster"
        except TimeoutError:
            return None
        except (CannotWrite, UserError) as why:  # UserError: about the symbolic graph
            return one_line(why)
        except InfrastructureError:
            raise
        except Exception as error:  # a bug of ours costs this rung, not what others found
            return one_line(f"it raised {type(error).__name__}: {error}")

    def judge(self, codes: Sequence[str]) -> list[Verdict | None]:
        """Judge kernels and keep the best."""
        full = [self.form.text(code, self.rung.name) for code in codes]
        self.ladder.under_way = f"while the judge tried the kernel of {self.rung.name} for {self.graph.name}"
        verdicts = self.ladder.judged(self.form.task, full, self.wait)
        for code, text, verdict in zip(codes, full, verdicts, strict=True):
            if verdict is None:
                continue
            self.judged += 1
            what = f"{verdict.outcome.value.replace('_', ' ')}: {verdict.detail}"
            what = "verified" if verdict.correct else what
            names = self.graph.name, self.rung.name
            self.ladder.watch(Tried(*names, one_line(what), self.form.task, Candidate(code=text), verdict))
            if verdict.correct:
                made = Answer(graph=self.graph.digest, rung=self.rung.name, code=code, verdict=verdict)
                # A kernel with `tl.dot` is not what torch.compile runs by default.
                if self.rung.name == "compiler" and "tl.dot(" not in code:
                    self.inductor_ms = made.ms
                faster = faster_of(self.best, made)
                self._better = self._better or faster is made
                self.best = faster
            elif (depth := list(Outcome).index(verdict.outcome)) > self._depth:
                self._depth, self.failed = depth, one_line(what)
        return verdicts


def pose(
    graph: Graph,
    values: Mapping[str, Any] | None = None,
    *,
    policy: Literal["full", "partial"] = "full",
    shapes: Sizes | None = None,
    precision: str = "default",
    free: Collection[str] = (),
) -> Task:
    """A graph as a task, at small sizes of its symbols (`shapes`, if given). `free`: symbols whose
    whole range kernels must serve. Raises UserError if no inputs can be drawn for its arguments."""
    sets: dict[str, dict[str, int]] = {name: dict(one) for name, one in (shapes or {}).items()}
    if not graph.symbols:
        sets = {"small": {}}
    elif not sets:
        sets = usual_sizes(graph)
    task = to_task(graph, f"graph/{graph.name}-{graph.digest}", values=values, shapes=sets, free=free)
    task = task.model_copy(update={"policy": policy, "min_share": 0.0 if policy == "partial" else 1.0})
    return task.model_copy(update={"precision": check_name(precision)})


def usual_sizes(graph: Graph) -> dict[str, dict[str, int]]:
    """Small sizes of a graph's symbols within their bounds, by shape set."""
    return {
        name: {
            one.name: max(one.least, min(sizes[at % len(sizes)], one.most or one.hint, one.hint))
            for at, one in enumerate(graph.symbols)
        }
        for name, sizes in zip(("small", "small_odd"), SMALL, strict=True)
    }


def _fair(entry: Entry) -> Entry:
    if entry.best is None:
        return entry
    verdict = against_inductor(entry.best.verdict, entry.inductor_ms)
    return entry.model_copy(update={"best": entry.best.model_copy(update={"verdict": verdict})})
