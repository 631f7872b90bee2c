"""The chain, on one screen: prompts -> completions -> candidates -> verdicts -> rewards -> rollouts.

Training and evaluation both call `roll`, so what is rewarded is what is measured. Verification starts while
the policy is still writing: each completion goes to the verifier the moment it is whole. A judge that fails
and a kernel that the backend cannot run are data (a verdict without a fair verdict, a reward of None), never
a crash.
"""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Protocol

from kernelwright import candidates, migrate, rewards
from kernelwright.errors import UserError
from kernelwright.graph import stitch
from kernelwright.graph.stitch import ENTRY
from kernelwright.graph.title import task_title
from kernelwright.graph.types import Graph
from kernelwright.outcomes import Gate, Outcome
from kernelwright.parsing import parse
from kernelwright.policy import Policy
from kernelwright.policy.text import until_plan
from kernelwright.records import Candidate, Completion, Prompt, Rollout, Task, Timing, Verdict
from kernelwright.synth.library import program_of_plan
from kernelwright.synth.plan import print_plan
from kernelwright.synth.primitives import Unsupported
from kernelwright.synth.to_triton import label_of, print_triton


class Verifier(Protocol):
    """What is needed of a judge: `verify.VerifierPool`, or `Judge` around one."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]: ...


Memory = Callable[[Task, Candidate], Verdict | None]


def with_print(task: Task, candidate: Candidate) -> Candidate:
    """The candidate of an answer that is a plan alone: its code is the library's print of what the plan decides. The operators are
    the graph's, whichever it names. Where the plan is none, or its nest is that of other operators, it says so and has no code."""
    if candidate.code or not task.graph or not candidate.plan:
        return candidate
    graph = Graph.model_validate_json(task.graph)
    try:
        program = program_of_plan(graph, candidate.plan, by_name=False)
        code = print_triton(program)
    except (UserError, Unsupported) as error:
        return candidate.model_copy(
            update={"problem": Outcome.NO_CODE, "detail": f"no such plan: {error}"[:300]}
        )
    plan = print_plan(label_of(graph), program.schedule)
    return candidate.model_copy(update={"code": code, "plan": plan, "problem": None, "detail": ""})


def in_module(task: Task, candidate: Candidate) -> Candidate:
    """The candidate as a judge takes it: where the task is a graph, `kernel(...)` with a `ModelNew` around it.

    Without a function `kernel` it has no entry, and says so; a candidate with a `ModelNew` of its own stays as it is.
    """
    if not task.graph or not candidate.code or candidate.problem is not None:
        return candidate
    try:
        body = parse(candidate.code).body
    except (SyntaxError, ValueError, RecursionError):  # the judge says what is wrong with it
        return candidate
    names = {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    if "ModelNew" in names:
        return candidate
    graph = Graph.model_validate_json(task.graph)
    if ENTRY not in names:
        missing = f"no function {ENTRY}({', '.join(one.name for one in graph.arguments)})"
        return candidate.model_copy(update={"problem": Outcome.NO_ENTRY, "detail": missing})
    return candidate.model_copy(update={"code": stitch.candidate(candidate.code, graph)})


class Judge:
    """A verifier that judges the same case once: one verdict a (task, code), while it remembers it.

    Candidates for tasks in function form go to it as `in_module` writes them. Only fair verdicts are remembered. `limit` is how many; the oldest is forgotten first.
    """

    def __init__(self, pool: Verifier, limit: int = 4096, memory: Memory | None = None) -> None:
        """`memory` is asked before the pool: what was judged in earlier runs (`archive.verdicts`)."""
        self._pool, self._limit, self._memory = pool, limit, memory
        self._known: dict[tuple[str, ...], Future[Verdict]] = {}
        self._lock = threading.Lock()
        self.asked = self.judged = 0
        """Cases submitted, and those that went on to the pool."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        key = (task.id, task.digest, candidate.digest, str(candidate.problem))
        with self._lock:
            self.asked += 1
            known = self._known.get(key)
            if known is not None and not _failed(known):
                return known
            future = self._remembered(task, candidate)
            if future is None:
                self.judged += 1
                future = self._pool.submit(task, in_module(task, candidate))
            self._known[key] = future
            while len(self._known) > self._limit:
                self._known.pop(next(iter(self._known)))
            return future

    def _remembered(self, task: Task, candidate: Candidate) -> Future[Verdict] | None:
        """What memory says of a candidate, as if it had been judged."""
        found = None if self._memory is None else self._memory(task, candidate)
        if found is None:
            return None
        future: Future[Verdict] = Future()
        future.set_result(found)
        return future


def roll(
    policy: Policy,
    prompts: Sequence[Prompt],
    tasks: Sequence[Task],
    verifier: Verifier,
    *,
    n: int = 1,
    reward: str = "wright",
    stage: str = "",
    step: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    seed: int = 0,
    known_us: Sequence[float | None] = (),
) -> list[list[Rollout]]:
    """`n` rollouts of each prompt; `tasks[i]` is the task that `prompts[i]` asks about, `known_us[i]` its best known time.

    Raises UserError for a broken task and an unknown reward; every other failure is data.
    """
    rolling = Rolling(
        policy, prompts, tasks, verifier, reward=reward, stage=stage, step=step, known_us=known_us
    )
    rolling.generate(n, temperature=temperature, top_p=top_p, seed=seed)
    return rolling.collect()


class Rolling:
    """`roll` in two parts: `generate` returns while verdicts are still out, `collect` waits for them.

    What an earlier process generated can be put in again, by `take` for each completion, instead of `generate`.
    """

    def __init__(
        self,
        policy: Policy,
        prompts: Sequence[Prompt],
        tasks: Sequence[Task],
        verifier: Verifier,
        *,
        reward: str,
        stage: str,
        step: int,
        known_us: Sequence[float | None] = (),
        among: bool = False,
        migrating: bool = False,
        drop_broken: bool = False,
    ) -> None:
        """`known_us[i]`: the best time that is known for `tasks[i]`, which timings are then held against; with `among`, where none is
        known, the fastest of the prompt's own samples. `migrating`: candidates are judged without names that PyTorch has removed; right ones are `migrated` then. `drop_broken`: one broken task among many of a corpus costs its own samples, as a failure of
        the judge's does."""
        self.known_us, self.among = known_us or [None] * len(tasks), among
        self.migrating, self.drop_broken = migrating, drop_broken
        self.policy, self.prompts, self.tasks = policy, prompts, tasks
        self.judge = verifier if isinstance(verifier, Judge) else Judge(verifier)
        self.reward, self.stage, self.step = reward, stage, step
        hush = quiet_gpu(verifier)
        if hush is not None and hasattr(policy, "busy"):
            policy.busy = hush
        self.completions: dict[tuple[int, int], Completion] = {}
        self.generate_s = self.wait_s = 0.0
        """Seconds until the last completion was whole, and seconds that `collect` then waited for verdicts."""
        self._candidate: dict[tuple[int, int], Candidate] = {}
        self._verdict: dict[tuple[int, int], Future[Verdict]] = {}
        self._written: dict[tuple[int, int], float] = {}
        self._began = time.perf_counter()

    def generate(self, n: int, *, temperature: float, top_p: float, seed: int) -> None:
        """Sample; each completion goes to the verifier the moment it is whole."""
        self.policy.generate(
            self.prompts, n, temperature=temperature, top_p=top_p, seed=seed, on_completion=self.take
        )
        self.generate_s = time.perf_counter() - self._began

    def take(self, row: int, sample: int, completion: Completion) -> None:
        """Parse a completion of `prompts[row]` and start its verification."""
        if self.prompts[row].answer == "plan":
            completion = until_plan(completion, self.policy.pieces(completion) or ())
        parsed = candidates.parse(completion.text, self.policy.pieces(completion), completion.finish_reason)
        if self.prompts[row].answer == "plan":
            parsed = with_print(self.tasks[row], parsed)
        if self.migrating:
            parsed = migrate.migrated(parsed)
        self._written[row, sample] = time.perf_counter() - self._began
        self.completions[row, sample] = completion
        self._candidate[row, sample] = parsed
        self._verdict[row, sample] = self.judge.submit(self.tasks[row], parsed)

    def collect(self) -> list[list[Rollout]]:
        """The rollouts, prompt by prompt, once their verdicts are there."""
        began = time.perf_counter()
        groups: list[list[Rollout]] = [[] for _ in self.prompts]
        places = sorted(self.completions)
        answers = {place: self._answer(place) for place in places}
        for row, sample in places:
            parsed, known = self._candidate[row, sample], self.known_us[row]
            if known is None and self.among:
                known = _fastest([answers[place] for place in places if place[0] == row])
            answer = beside_known(answers[row, sample], known)
            groups[row].append(
                Rollout(
                    task_id=self.tasks[row].id,
                    title=task_title(self.tasks[row]),
                    dtype=self.tasks[row].dtype,
                    stage=self.stage,
                    step=self.step,
                    group=f"{self.stage}/{self.step}/{row}",
                    prompt=self.prompts[row],
                    completion=self.completions[row, sample],
                    candidate=parsed,
                    verdict=answer,
                    reward=rewards.reward(
                        self.reward, answer, candidate=parsed, completion=self.completions[row, sample]
                    ),
                    seconds={
                        "generate": round(self._written[row, sample], 3),
                        "total": round(time.perf_counter() - self._began, 3),
                    },
                )
            )
        self.wait_s = time.perf_counter() - began
        return groups

    def _answer(self, place: tuple[int, int]) -> Verdict:
        """The verdict on a sample, waited for."""
        parsed = self._candidate[place]
        verdict = await_verdict(self._verdict[place], self.tasks[place[0]], parsed, self.drop_broken)
        return migrate.count_as_migrated(parsed, verdict)


def quiet_gpu(verifier: Verifier) -> Callable[[], AbstractContextManager[Any]] | None:
    """What to enter while working on a GPU that may also be the verifier's, so that no clock runs there then.

    None where the verifier has no GPU.
    """
    pool = _pool_of(verifier)
    return getattr(pool, "at_work", None) if getattr(pool, "gpus", None) else None


def spent_on_gpus(verifier: Verifier) -> dict[str, float]:
    """Seconds so far that the verifier's GPUs spent on references and on clocks; empty without GPUs."""
    total: dict[str, float] = {}
    for gpu in getattr(_pool_of(verifier), "gpus", None) or ():
        for what, seconds in gpu.spent.items():
            total[what] = total.get(what, 0.0) + seconds
    return total


def _pool_of(verifier: Verifier) -> Verifier:
    return verifier._pool if isinstance(verifier, Judge) else verifier


def hand_on(given: Rollout, made: Rollout) -> Rollout:
    """What a stage of the pipeline hands on: `made` where it is verified and faster, else what it was given."""
    return made if made.verdict.correct and faster(made.verdict.timing, given.verdict.timing) else given


def beside_known(verdict: Verdict, us: float | None) -> Verdict:
    """The verdict with the best known time beside its own."""
    if us is None or verdict.timing is None:
        return verdict
    timing = verdict.timing.model_copy(update={"known_ms": us / 1e3})
    return verdict.model_copy(update={"timing": timing})


def _fastest(verdicts: Sequence[Verdict]) -> float | None:
    """Microseconds of the fastest right one; None where none was timed."""
    times = [1e3 * one.timing.candidate_ms for one in verdicts if one.correct and one.timing is not None]
    return min(times, default=None)


def faster(new: Timing | None, old: Timing | None) -> bool:
    """Whether `new` beats `old`: less time by the model, which has no noise, or clocked apart beyond the noise."""
    if new is None or old is None:
        return old is None and new is not None
    if new.kind == old.kind == "modelled":
        return new.candidate_ms < old.candidate_ms
    return new.candidate_ci[1] < old.candidate_ci[0]


def await_verdict(
    future: Future[Verdict], task: Task, candidate: Candidate, drop_broken: bool = False
) -> Verdict:
    """The verdict, or one that says that the judge failed. A broken task is the user's to mend: UserError, unless it is one among
    many, of which the samples are then left out."""
    try:
        return future.result()
    except Exception as error:
        if isinstance(error, UserError) and not drop_broken:
            raise
        return Verdict(
            task_id=task.id,
            outcome=Outcome.INFRASTRUCTURE_ERROR,
            gate=Gate.PARSE,
            detail=f"{type(error).__name__}: {error}"[:300],
            candidate_digest=candidate.digest,
        )


def _failed(future: Future[Verdict]) -> bool:
    """True for a case that is closed without a fair verdict by the judge's own failure."""
    if not future.done():
        return False
    if future.cancelled() or future.exception() is not None:
        return True
    return future.result().outcome is Outcome.INFRASTRUCTURE_ERROR
