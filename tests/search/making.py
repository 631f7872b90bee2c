"""Verdicts, judges and rungs for tests of the search: a kernel's source states its time."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from graph.building import Builder

from kernelwright.graph.types import Graph
from kernelwright.outcomes import Gate, Outcome
from kernelwright.records import Candidate, Completion, Message, Prompt, Rollout, Task, Timing, Verdict
from kernelwright.search.rung import CannotWrite
from kernelwright.verify import VerifierPool


def timing(ms: float, kind: Any = "modelled", noise: float = 0.0) -> Timing:
    return Timing(
        kind=kind,
        target="h200",
        candidate_ms=ms,
        candidate_ci=(ms * (1 - noise), ms * (1 + noise)),
        baseline_ms={"eager": 1.0},
        speedup_ci={"eager": (1 / ms, 1 / ms)},
    )


def rollout(outcome: Outcome, time: Timing | None = None, code: str = "x") -> Rollout:
    message = Message(role="user", content="?")
    verdict = Verdict(task_id="t", outcome=outcome, gate=Gate.TIMING, timing=time)
    return Rollout(
        task_id="t",
        stage="frontend",
        prompt=Prompt(task_id="t", agent="frontend", messages=(message,), max_tokens=1),
        completion=Completion(text="x"),
        candidate=Candidate(code=code),
        verdict=verdict,
    )


def kernel(ms: float | str) -> str:
    """Source that the judge below accepts with that time, or rejects with that word."""
    return f"import torch\n\n\ndef kernel(x):\n    return {ms!r}\n"


def graph() -> Graph:
    b = Builder()
    return b.graph(b.op("aten.relu.default", b.input(4)))


class Judge:
    """Accepts `kernel(MS)`, rejects `kernel("why")` and whatever `refuse` matches."""

    def __init__(self, refuse: Callable[[str], bool] = lambda code: False, never: bool = False) -> None:
        self.refuse, self.never, self.judged = refuse, never, []  # type: ignore[var-annotated]

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self.judged.append(candidate.code)
        future: Future[Verdict] = Future()
        if self.never:
            return future
        said = candidate.code.split("return ")[1].splitlines()[0].strip("'")
        found: dict[str, Any] = {"outcome": Outcome.WRONG_VALUE, "detail": f"no such {said}"}
        if said.replace(".", "").isdigit() and not self.refuse(candidate.code):
            found = {"outcome": Outcome.CORRECT, "timing": timing(float(said))}
        future.set_result(Verdict(task_id=task.id, gate=Gate.TIMING, **found))
        return future


class Prices(VerifierPool):
    """Prices kernels as they say, and judges them."""

    def __init__(self) -> None:
        self.gpus, self.judge_of, self.priced = [], Judge(), 0  # without processes

    def close(self, abort: bool = False) -> None:
        return

    def prepare(self, task: Task) -> None:
        return

    def price(self, task: Task, candidate: Candidate) -> Future[Timing | None]:
        self.priced += 1
        future: Future[Timing | None] = Future()
        future.set_result(timing(float(candidate.code.split("return ")[1].splitlines()[0])))
        return future

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        return self.judge_of.submit(task, candidate)


class Says:
    """A rung with a scripted answer that counts its calls."""

    def __init__(self, name: Any, said: str | Exception) -> None:
        self.name, self.said, self.asked = name, said, 0

    def write(self, graph: Graph, sizes: Sequence[Any], seconds: float) -> str:
        self.asked += 1
        if isinstance(self.said, Exception):
            raise self.said
        return self.said


def cannot(why: str) -> CannotWrite:
    return CannotWrite(why)
