"""Inspect (0.3): kernels as an evaluation task.

    inspect eval kernelwright/adapters/for_inspect.py@kernels -T suite=wright --model openai/gpt-5

If the judge fails, the sample is unscored, and Inspect's metrics ignore it.
"""

from __future__ import annotations

import asyncio

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, accuracy, mean, scorer, stderr
from inspect_ai.solver import TaskState, generate

from kernelwright.adapters.grading import default_grader, read_task, task_rows


@scorer(metrics={"correct": [accuracy(), stderr()], "speedup": [mean()]})
def verdict_scorer(preset: str = "wright") -> Scorer:
    """`correct` (0 or 1) and `speedup` over eager (0 if not correct)."""

    async def score(state: TaskState, target: Target) -> Score:
        task_row = read_task(state.metadata["task"])
        grade = await asyncio.to_thread(default_grader(preset).grade, task_row, state.output.completion)
        if grade.reward is None:
            return Score.unscored(reason=grade.verdict.detail or grade.verdict.outcome.value)
        metrics = grade.metrics()
        return Score(
            value={"correct": metrics["correct"], "speedup": metrics["speedup"]},
            answer=grade.verdict.outcome.value,
            explanation=grade.feedback,
        )

    return score


@task
def kernels(suite: str = "wright", limit: int = 0, preset: str = "wright") -> Task:
    """One sample for each task of a suite."""
    samples = [
        Sample(input=_messages(row["prompt"]), id=row["task_id"], metadata={"task": row["task"]})
        for row in task_rows(suite, limit)
    ]
    return Task(dataset=MemoryDataset(samples), solver=generate(), scorer=verdict_scorer(preset))


def _messages(prompt: list[dict[str, str]]) -> list[ChatMessage]:
    kinds = {"system": ChatMessageSystem, "user": ChatMessageUser}
    return [kinds[message["role"]](content=message["content"]) for message in prompt]
