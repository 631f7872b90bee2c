"""The whole chain: prompts -> completions -> candidates -> verdicts -> rewards -> rollouts.

Training and evaluation use the same code, so what is rewarded is what is measured. Each completion goes to the verifier as soon as
it ends, while the policy still samples others. A failure of the judge, or a kernel that the backend cannot run, is data (a
verdict that is not fair, a reward of None), never a crash.
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
    """The interface of a judge: `verify.VerifierPool`, or `Judge` around one."""

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]: ...


Memory = Callable[[Task, Candidate], Verdict | None]


def with_print(task: Task, candidate: Candidate) -> Candidate:
    """The candidate of an answer that is only a plan: its code is the library's print of the plan. Operators come from the graph,
    whatever the plan names. If the plan is invalid, or its nest is for other operators, the candidate has a problem and no code."""
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
    """The candidate in the form that a judge takes: for a graph, a `ModelNew` is added around `kernel(...)`.

    Without a function `kernel`, its problem is `no_entry`; a candidate with its own `ModelNew` is unchanged.
    """
    if not task.graph or not candidate.code or candidate.problem is not None:
        return candidate
    try:
        body = parse(candidate.code).body
    except (SyntaxError, ValueError, RecursionError):  # the judge reports the error
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
    """Caches a verifier's verdicts by (task, code), so that it judges each case once.

    Candidates for tasks in function form are passed on in the form of `in_module`. Only fair verdicts are cached, at most
    `limit`; the oldest is dropped first.
    """

    def __init__(self, pool: Verifier, limit: int = 4096, memory: Memory | None = None) -> None:
        """`memory` is asked before the pool, for verdicts of earlier runs (`archive.verdicts`)."""
        self._pool, self._limit, self._memory = pool, limit, memory
        self._known: dict[tuple[str, ...], Future[Verdict]] = {}
        self._lock = threading.Lock()
        self.asked = self.judged = 0
        """Cases submitted, and those passed on to the pool."""

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
        """The verdict from memory, in the form of a judge's."""
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
    """`n` rollouts of each prompt; `tasks[i]` is the task of `prompts[i]`, `known_us[i]` its best known time.

    Raises UserError for a broken task or an unknown reward; every other failure is data.
    """
    rolling = Rolling(
        policy, prompts, tasks, verifier, reward=reward, stage=stage, step=step, known_us=known_us
    )
    rolling.generate(n, temperature=temperature, top_p=top_p, seed=seed)
    return rolling.collect()


class Rolling:
    """`roll` in two parts: `generate` returns while verdicts are pending, `collect` waits for them.

    Instead of `generate`, completions of an earlier process can be added with `take`.
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
        """`known_us[i]`: best known time of `tasks[i]`, with which times are compared; with `among`, if unknown, the fastest of the
        prompt's own samples. `migrating`: rewrite names that PyTorch has removed before judging; correct candidates are then
        `migrated`. `drop_broken`: a broken task loses only its own samples, as when the judge fails, instead of raising."""
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
        """Seconds until the last completion ended, and seconds that `collect` then waited for verdicts."""
        self._candidate: dict[tuple[int, int], Candidate] = {}
        self._verdict: dict[tuple[int, int], Future[Verdict]] = {}
        self._written: dict[tuple[int, int], float] = {}
        self._began = time.perf_counter()

    def generate(self, n: int, *, temperature: float, top_p: float, seed: int) -> None:
        """Sample; each completion goes to the verifier as soon as it ends."""
        self.policy.generate(
            self.prompts, n, temperature=temperature, top_p=top_p, seed=seed, on_completion=self.take
        )
        self.generate_s = time.perf_counter() - self._began

    def take(self, row: int, sample: int, completion: Completion) -> None:
        """Parse a completion of `prompts[row]` and submit it."""
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
        """The rollouts by prompt, once all verdicts have arrived."""
        began = time.perf_counter()
        groups: list[list[Rollout]] = [[] for _ in self.prompts]
        places = sorted(self.completions)
        answers = {place: self._answer(place) for place in places}
        for row, sample in places:
            parsed, known = self._candidate[row, sample], self.known_us[row]
            if known is None and self.among:
                known = _fastest([answers[place] for place in places if place[0] == row])
            answer = with_known_time(answers[row, sample], known)
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
        """Wait for a sample's verdict."""
        parsed = self._candidate[place]
        verdict = await_verdict(self._verdict[place], self.tasks[place[0]], parsed, self.drop_broken)
        return migrate.count_as_migrated(parsed, verdict)


def quiet_gpu(verifier: Verifier) -> Callable[[], AbstractContextManager[Any]] | None:
    """A context for work on a GPU that may also be the verifier's: while active, nothing is timed there.

    None if the verifier has no GPU.
    """
    pool = _pool_of(verifier)
    return getattr(pool, "at_work", None) if getattr(pool, "gpus", None) else None


def gpu_seconds(verifier: Verifier) -> dict[str, float]:
    """Seconds so far that the verifier's GPUs spent on references and on timing; empty without GPUs."""
    total: dict[str, float] = {}
    for gpu in getattr(_pool_of(verifier), "gpus", None) or ():
        for what, seconds in gpu.spent.items():
            total[what] = total.get(what, 0.0) + seconds
    return total


def _pool_of(verifier: Verifier) -> Verifier:
    return verifier._pool if isinstance(verifier, Judge) else verifier


def hand_on(given: Rollout, made: Rollout) -> Rollout:
    """What a pipeline stage passes on: `made` if it is verified and faster, else `given`."""
    return made if made.verdict.correct and faster(made.verdict.timing, given.verdict.timing) else given


def with_known_time(verdict: Verdict, us: float | None) -> Verdict:
    """The verdict with the best known time added."""
    if us is None or verdict.timing is None:
        return verdict
    timing = verdict.timing.model_copy(update={"known_ms": us / 1e3})
    return verdict.model_copy(update={"timing": timing})


def _fastest(verdicts: Sequence[Verdict]) -> float | None:
    """Microseconds of the fastest correct one; None if none was timed."""
    times = [1e3 * one.timing.candidate_ms for one in verdicts if one.correct and one.timing is not None]
    return min(times, default=None)


def faster(new: Timing | None, old: Timing | None) -> bool:
    """Whether `new` is faster than `old`: a shorter modelled time, since that has no noise, or non-overlapping intervals."""
    if new is None or old is None:
        return old is None and new is not None
    if new.kind == old.kind == "modelled":
        return new.candidate_ms < old.candidate_ms
    return new.candidate_ci[1] < old.candidate_ci[0]


def await_verdict(
    future: Future[Verdict], task: Task, candidate: Candidate, drop_broken: bool = False
) -> Verdict:
    """Wait for the verdict; a failure of the judge becomes a verdict, too. A broken task raises UserError for the user to fix; with
    `drop_broken`, only its samples are lost."""
    try:
        return future.result()
    except Exception as error:
        if isinstance(error, UserError) and not drop_broken:
            raise
        return unjudged(task, candidate, f"{type(error).__name__}: {error}"[:300])


def unjudged(task: Task, candidate: Candidate, why: str) -> Verdict:
    """What stands for a verdict where the judge failed."""
    return Verdict(
        task_id=task.id,
        outcome=Outcome.INFRASTRUCTURE_ERROR,
        gate=Gate.PARSE,
        detail=why,
        candidate_digest=candidate.digest,
    )


def _failed(future: Future[Verdict]) -> bool:
    """True if a finished case has no fair verdict because the judge itself failed."""
    if not future.done():
        return False
    if future.cancelled() or future.exception() is not None:
        return True
    return future.result().outcome is Outcome.INFRASTRUCTURE_ERROR
