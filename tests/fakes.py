"""Fakes for tests of the chain: a policy with scripted completions, and a judge that reads its verdict from the code.

A fake kernel is text such as `correct 0.5` (milliseconds), `wrong_value`, `infrastructure_error` or `crash`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

from kernelwright.errors import UserError
from kernelwright.outcomes import Gate, Outcome
from kernelwright.policy.policy import OnCompletion
from kernelwright.prompts import completion_text
from kernelwright.records import Candidate, Completion, Prompt, Rollout, Task, Timing, Verdict

EAGER_MS = 1.0


def task(name: str, family: str = "norm") -> Task:
    return Task(id=f"synth/{name}", suite="synth", source=f"N = 4  # {name}", family=family)


def answer(kernel: str) -> str:
    """A completion that parses and has `kernel` as a comment in its code."""
    return completion_text("a plan", f"# {kernel}\nclass ModelNew: pass\n@triton.jit\ndef kernel(): pass")


class SaidPolicy:
    """Answers `say(prompt, sample, seed)`; records the prompts."""

    name = "said"

    def __init__(self, say: Callable[[Prompt, int, int], str]) -> None:
        self.say, self.asked = say, []  # type: ignore[var-annotated]

    def generate(
        self,
        prompts: Sequence[Prompt],
        n: int = 1,
        *,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int = 0,
        on_completion: OnCompletion | None = None,
    ) -> list[list[Completion]]:
        groups = []
        for row, prompt in enumerate(prompts):
            self.asked.append(prompt)
            groups.append(
                [Completion(text=self.say(prompt, sample, seed), policy="said") for sample in range(n)]
            )
            if on_completion is not None:
                for sample, completion in enumerate(groups[-1]):
                    on_completion(row, sample, completion)
        return groups

    def pieces(self, completion: Completion) -> tuple[str, ...] | None:
        return None


class ReadJudge:
    """Judges at once what `answer` wrote; counts verifications. `before` may raise or wait."""

    def __init__(self, before: Callable[[Task, Candidate], Any] | None = None) -> None:
        self.before, self.judged = before, 0

    def submit(self, task: Task, candidate: Candidate) -> Future[Verdict]:
        self.judged += 1
        future: Future[Verdict] = Future()
        try:
            if self.before is not None:
                self.before(task, candidate)
            future.set_result(verdict(task, candidate))
        except Exception as error:
            future.set_exception(error)
        return future


def verdict(task: Task, candidate: Candidate) -> Verdict:
    """The fake judge's verdict. Raises for code with `crash` or `broken task`."""
    if candidate.problem is not None:
        return Verdict(task_id=task.id, outcome=candidate.problem, gate=Gate.PARSE)
    said = candidate.code.partition("\n")[0].removeprefix("# ").split()
    if said[:1] == ["crash"]:
        raise RuntimeError("the judge fell over")
    if said[:2] == ["broken", "task"]:
        raise UserError(f"task {task.id}: get_inputs raised; fix it")
    known = said[0] if said and said[0] in set(Outcome) else Outcome.WRONG_VALUE
    timing = None
    if len(said) > 1 and known == Outcome.CORRECT and not re.fullmatch(r"\d+(\.\d+)?", said[1]):
        known = Outcome.WRONG_VALUE  # a sampling policy also writes malformed ones such as `correct 2@`
    if len(said) > 1 and known == Outcome.CORRECT:
        ms = float(said[1])
        timing = Timing(
            kind="modelled",
            target="h200",
            candidate_ms=ms,
            candidate_ci=(ms, ms),
            baseline_ms={"eager": EAGER_MS},
            speedup_ci={"eager": (EAGER_MS / ms, EAGER_MS / ms)},
        )
    return Verdict(
        task_id=task.id,
        outcome=Outcome(known),
        gate=Gate.SMALL,
        timing=timing,
        candidate_digest=candidate.digest,
    )


def kernel_of(rollout: Rollout) -> str:
    return rollout.candidate.code.partition("\n")[0].removeprefix("# ")
