"""Distils a language model: any OpenAI-compatible endpoint writes kernels, and gets the judge's messages back.

    OUT                  accepted answers as examples; `teacher` is the model's name
    OUT's .turns.jsonl   every task with all questions and answers, reasoning included, accepted or not

A rejected task is asked again with the judge's message, for up to `turns` turns. Endpoint failures (no chat completion, an
empty or endless answer) are counted by reason; several failing tasks in a row end the run. A stopped run resumes where
`.turns.jsonl` ends. Answers are in the order of the tasks.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from kernelwright import candidates, prompts
from kernelwright.data.decide import fair
from kernelwright.data.streams import Progress, Stream, silent
from kernelwright.errors import UserError
from kernelwright.outcomes import Outcome
from kernelwright.policy import Policy
from kernelwright.records import Candidate, Example, Message, Prompt, Record, Task, write_jsonl
from kernelwright.runs import writing

if TYPE_CHECKING:
    from kernelwright.rollouts import Verifier

IN_A_ROW = 5
"""Tasks in a row that may fail at the endpoint before the run ends."""


class Turn(Record):
    """One question and its result."""

    answer: str
    """All of the model's output, with reasoning in `<think>`."""
    outcome: str
    """The verdict's outcome, or the problem with the answer."""
    feedback: str = ""
    """The message to the next turn."""


class Distilled(Record):
    """One task with all its turns."""

    task_id: str
    turns: tuple[Turn, ...]
    example: Example | None = None
    reason: str
    """`accepted`, `rejected: OUTCOME` of the last turn, `endpoint: ...`, or `budget`."""


class Teacher:
    """Asks about a task until an answer is accepted, or turns or budget are used up."""

    def __init__(
        self,
        policy: Policy,
        verifier: Verifier,
        *,
        turns: int = 3,
        requests: int = 0,
        instruction: str = "",
        max_tokens: int = 4096,
        temperature: float = 0.7,
    ) -> None:
        """`requests`: budget of the whole run, 0 for none; `instruction`: added to every question."""
        self.policy, self.verifier, self.turns, self.max_tokens = policy, verifier, turns, max_tokens
        self.instruction, self.temperature = instruction.strip(), temperature
        self._left = requests or 1 << 60
        self._lock = threading.Lock()

    def teach(self, task: Task) -> Distilled:
        """Ask about one task. Raises InfrastructureError if the judge fails."""
        turns: list[Turn] = []
        last, feedback, seen = "", "", ""
        while len(turns) < self.turns:
            if not self._spend():
                return Distilled(task_id=task.id, turns=tuple(turns), reason="budget")
            prompt = self._prompt(task, seen, feedback)
            try:
                completion = self.policy.generate([prompt], temperature=self.temperature)[0][0]
            except UserError as error:
                reason = f"endpoint: {str(error).removeprefix(f'{self.policy.name}: ')}"
                return Distilled(task_id=task.id, turns=tuple(turns), reason=reason[:200])
            candidate = candidates.parse(completion.text, finish_reason=completion.finish_reason)
            last, feedback = self._judged(task, candidate)
            turns.append(Turn(answer=completion.text, outcome=last, feedback=feedback))
            if last == Outcome.CORRECT.value:
                made = self._example(task, candidate)
                return Distilled(task_id=task.id, turns=tuple(turns), example=made, reason="accepted")
            seen = candidate.code
        return Distilled(task_id=task.id, turns=tuple(turns), reason=f"rejected: {last}")

    def _spend(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0

    def _prompt(self, task: Task, kernel: str, feedback: str) -> Prompt:
        made = prompts.render("frontend", task, kernel=kernel, feedback=feedback, max_tokens=self.max_tokens)
        if not self.instruction:
            return made
        *rest, last = made.messages
        question = Message(role=last.role, content=f"{last.content.rstrip()}\n\n{self.instruction}\n")
        return made.model_copy(update={"messages": (*rest, question)})

    def _judged(self, task: Task, candidate: Candidate) -> tuple[str, str]:
        """The outcome, and the feedback for the model."""
        if candidate.problem is not None:
            return candidate.problem.value, f"{candidate.problem.value}: {candidate.detail}"
        verdict = fair(self.verifier.submit(task, candidate))
        return verdict.outcome.value, "" if verdict.correct else prompts.feedback(verdict)

    def _example(self, task: Task, candidate: Candidate) -> Example:
        return Example(task=task, plan=candidate.plan.strip(), code=candidate.code, teacher=self.policy.name)


def distill(
    suite: Sequence[Task], out: Path, teacher: Teacher, parallel: int = 8, progress: Progress = silent
) -> Counter[str]:
    """Ask about every task, `parallel` at a time. Returns counts by reason.

    Raises UserError if `IN_A_ROW` tasks in a row fail at the endpoint, InfrastructureError if the judge fails.
    """
    stream = Stream(out.with_name(f"{out.stem}.turns.jsonl"), Distilled)
    done = len(stream)
    if not stream.whole:
        with stream, ThreadPoolExecutor(parallel) as threads:
            tasks_left = deque(suite[done:])
            waiting: deque[Future[Distilled]] = deque()
            failed = 0
            try:
                while tasks_left or waiting:
                    while tasks_left and len(waiting) < 2 * parallel:
                        waiting.append(threads.submit(teacher.teach, tasks_left.popleft()))
                    found = waiting.popleft().result()
                    if found.reason == "budget":
                        raise UserError(
                            f"data: the budget of requests is spent after {done} of {len(suite)} tasks; run again with "
                            "a larger one to go on"
                        )
                    failed = failed + 1 if found.reason.startswith("endpoint: ") else 0
                    if failed >= IN_A_ROW:
                        raise UserError(
                            f"data: {IN_A_ROW} tasks in a row failed: {found.reason}; run again to go on"
                        )
                    stream.write(found)
                    done += 1
                    progress("distill", done, len(suite))
            finally:
                for future in waiting:
                    future.cancel()
    with writing(out):
        write_jsonl(out, (found.example for found in stream.records() if found.example is not None))
    return Counter(found.reason for found in stream.records())
