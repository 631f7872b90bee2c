"""Accepts most kernels that equal the library's print of their plan without a verdict, and judges a share of them.

Prints of a plan are correct except for the library's own bugs (1 % of a corpus), so a stage whose reward is correctness alone need
not judge every print that a policy reproduces. Any other code is always judged. Not for rewards that depend on a measured time.
"""

from __future__ import annotations

import multiprocessing
import random
import threading
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any, NamedTuple, Self

from kernelwright import hardware
from kernelwright.archive import character
from kernelwright.errors import UserError
from kernelwright.graph import stitch
from kernelwright.graph.types import Graph
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Cost, Evidence, Task, Verdict
from kernelwright.rollouts import Verifier
from kernelwright.synth.library import program_of_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.to_triton import print_triton
from kernelwright.verify.cost.eager import eager_ms
from kernelwright.verify.interpret import clock, lean_triton

Kind = tuple[Any, ...]


class Print(NamedTuple):
    """What is known of a print without judging it."""

    kind: Kind
    """The dtype, the loop nest, and all decisions that are not sizes."""
    cost: Cost
    eager: Cost


def print_of(task: Task, candidate: Candidate, target: str) -> Print | None:
    """None unless the candidate's code equals the print of its plan word for word (kernels named by operators or, as in a
    corpus, by their nest), and the print fits on the target."""
    graph, sheet = Graph.model_validate_json(task.graph), hardware.target(target)
    try:
        program = program_of_plan(graph, candidate.plan)
        codes = [print_triton(program, called) for called in (program.schedule.nest, "")]
        own = next((code for code in codes if stitch.candidate(code, graph) == candidate.code), None)
        if own is None:
            return None
        cost = clock.cost_without_registers(own, graph, sheet)
    except (UserError, Unsupported, clock.NoFit):
        return None
    eager = cost.model_copy(update={"ms": eager_ms(graph, sheet), "launches": len(graph.nodes)})
    return Print((task.dtype, *character(candidate.plan)), cost, eager)


class PrintersWord:
    """Wraps a verifier; also the context manager of the printing processes.

    All prints of a kind are judged until one is right; then a random share `judged` of them. Once one is wrong, all later prints of
    its kind are judged.
    """

    def __init__(
        self, verifier: Verifier, judged: float, target: str, *, workers: int, seed: int = 0
    ) -> None:
        """`workers`: processes that print; a sample takes a tenth of a CPU-core second, nearly all of it for the modelled cost."""
        self._verifier, self._judged, self._target, self._workers = verifier, judged, target, workers
        self._dice = random.Random(seed)
        self._right: dict[Kind | None, bool] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        spawn = multiprocessing.get_context("spawn")
        self._printers = ProcessPoolExecutor(self._workers, spawn, initializer=lean_triton.install)
        return self

    def __exit__(self, *exception: object) -> None:
        self._printers.shutdown(cancel_futures=True)

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        """Like a judge's `submit`. Errors are raised through the future."""
        if not task.graph or not candidate.plan or candidate.problem is not None:
            return self._verifier.submit(task, candidate)
        answer: Future[Verdict] = Future()
        printing = self._printers.submit(print_of, task, candidate, self._target)
        printing.add_done_callback(lambda done: self._decide(task, candidate, done, answer))
        return answer

    def _decide(
        self, task: Task, candidate: Candidate, printing: Future[Print | None], answer: Future[Verdict]
    ) -> None:
        known = None if printing.cancelled() or printing.exception() is not None else printing.result()
        kind = known.kind if known else None
        with self._lock:
            believed = self._right.get(kind, False) and self._dice.random() >= self._judged
        if known and believed:
            answer.set_result(_at_its_word(task, candidate, known))
            return
        try:
            judged = self._verifier.submit(task, candidate)
        except Exception as error:
            answer.set_exception(error)
            return
        judged.add_done_callback(lambda done: self._learn(kind, done, answer))

    def _learn(self, kind: Kind | None, judged: Future[Verdict], answer: Future[Verdict]) -> None:
        if judged.cancelled():
            answer.cancel()
            return
        error = judged.exception()
        if error is not None:
            answer.set_exception(error)
            return
        verdict = judged.result()
        if kind is not None and verdict.outcome.judged:
            with self._lock:
                self._right[kind] = self._right.get(kind, True) and verdict.correct
        answer.set_result(verdict)


def _at_its_word(task: Task, candidate: Candidate, known: Print) -> Verdict:
    return Verdict(
        task_id=task.id,
        outcome=Outcome.CORRECT,
        gate=Gate.PARSE,
        detail="not judged: word for word the library's print of its plan",
        protocol="printed",
        evidence=Evidence(cost=known.cost, reference_cost=known.eager),
        candidate_digest=candidate.digest,
    )
