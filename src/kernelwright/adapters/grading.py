"""Shared by all adapters: judge a completion for a task, and turn the verdict into a reward.

Parser, judge and reward presets are those of our own trainer, so a sample gets the same reward everywhere.
"""

from __future__ import annotations

import atexit
import functools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kernelwright import candidates, prompts, rewards
from kernelwright.config import VerifyConfig
from kernelwright.errors import InfrastructureError, UserError
from kernelwright.prompts import feedback
from kernelwright.records import Task, Verdict
from kernelwright.rollouts import Judge, Verifier, await_verdict
from kernelwright.tasks import load_suite, small_shapes
from kernelwright.verify import open_pool

JUDGE_VARIABLE = "KERNELWRIGHT_JUDGE"


@dataclass(frozen=True)
class Grade:
    """Verdict and reward of a completion."""

    verdict: Verdict
    reward: float | None
    """None if the judge failed or cannot run it; then the sample must not be trained on."""

    @property
    def feedback(self) -> str:
        """The message to the model for another turn."""
        return feedback(self.verdict)

    def metrics(self) -> dict[str, float]:
        """Metrics, with the same keys for every sample."""
        verdict = self.verdict
        return {
            "correct": float(verdict.correct),
            "compiled": float(verdict.outcome.compiled),
            "judged": float(verdict.outcome.judged),
            "speedup": verdict.speedup() or 0.0,
        }

    def fair_reward(self) -> float:
        """The reward, for frameworks that cannot leave out a sample. Raises InfrastructureError if there is none."""
        if self.reward is None:
            raise InfrastructureError(f"no fair verdict: {self.verdict.detail or self.verdict.outcome.value}")
        return self.reward


class Grader:
    """Grades completions under one reward preset; thread-safe. Equal answers are judged once. Raises UserError for an unknown preset."""

    def __init__(self, verifier: Verifier, preset: str = "wright") -> None:
        rewards.check_preset(preset)
        self._verifier, self.preset = verifier, preset

    def grade(self, task: Task, completion: str) -> Grade:
        """Grade one completion. The reward is None if the judge failed. Raises UserError for a broken task."""
        return self.grade_many([(task, completion)])[0]

    def grade_many(self, pairs: Sequence[tuple[Task, str]]) -> list[Grade]:
        """Grade many completions concurrently; results are in their order."""
        parsed = [(task, candidates.parse(completion)) for task, completion in pairs]
        futures = [self._verifier.submit(task, candidate) for task, candidate in parsed]
        verdicts = [await_verdict(future, *pair) for future, pair in zip(futures, parsed, strict=True)]
        return [Grade(verdict, rewards.reward(self.preset, verdict).total) for verdict in verdicts]


@functools.lru_cache(maxsize=8)
def default_grader(preset: str = "wright") -> Grader:
    """This process's grader: on the servers of $KERNELWRIGHT_JUDGE, else with a pool in this process."""
    pool = open_pool(VerifyConfig(judge=os.environ.get(JUDGE_VARIABLE, "")))
    atexit.register(pool.close, abort=True)
    return Grader(Judge(pool), preset)


def task_rows(suite: str, limit: int = 0, max_tokens: int = 4096) -> Iterator[dict[str, Any]]:
    """A suite as rows of a data set: `prompt` (messages), `task_id`, `task` (JSON). Raises UserError."""
    for task in load_suite(suite)[: limit or None]:
        sized = small_shapes(task)
        prompt = prompts.render("frontend", sized, max_tokens=max_tokens)
        messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
        yield {"prompt": messages, "task_id": sized.id, "task": sized.model_dump_json()}


@functools.lru_cache(maxsize=4096)
def read_task(text: str) -> Task:
    """Parse a row's `task`. Raises UserError if it is not a Task record."""
    try:
        return Task.model_validate_json(text)
    except ValueError as error:
        raise UserError(
            f"the data set's task is not a Task record ({type(error).__name__}); make rows with "
            "kernelwright.adapters.grading.task_rows"
        ) from None


def text_of(completion: Any) -> str:
    """The last answer of a completion, which may be text or messages."""
    if isinstance(completion, str):
        return completion
    return str(completion[-1]["content"]) if completion else ""
