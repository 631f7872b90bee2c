"""TRL (1.16): a reward function for `GRPOTrainer`, and an environment with repair turns.

from kernelwright.adapters import for_trl, grading
rows = datasets.Dataset.from_list(list(grading.task_rows("wright")))
GRPOTrainer(model, reward_funcs=for_trl.kernel_reward, train_dataset=rows)

GRPOTrainer(model, environment_factory=for_trl.KernelEnvironment, train_dataset=rows)    # experimental in TRL
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernelwright.adapters.grading import Grade, default_grader, read_task, text_of
from kernelwright.errors import InfrastructureError


def kernel_reward(
    prompts: Sequence[Any],
    completions: Sequence[Any],
    task: Sequence[str],
    log_metric: Callable[[str, float], None] | None = None,
    **columns: Any,
) -> list[float | None]:
    """One reward per completion; None leaves the sample out. `task` is that column of `grading.task_rows`."""
    pairs = [(read_task(text), text_of(answer)) for text, answer in zip(task, completions, strict=True)]
    grades = default_grader().grade_many(pairs)
    if log_metric is not None and grades:
        for name in grades[0].metrics():
            log_metric(f"kernel/{name}", sum(grade.metrics()[name] for grade in grades) / len(grades))
    return [grade.reward for grade in grades]


class KernelEnvironment:
    """One episode: the model submits kernels with the tool `submit_kernel` until one is correct, at most three."""

    turns = 3

    def reset(self, task: str, **columns: Any) -> str | None:
        """Start an episode with a row of `grading.task_rows`."""
        self._task, self._grades = read_task(task), list[Grade]()
        return None

    def submit_kernel(self, code: str) -> str:
        """Judge a kernel for the task.

        Args:
            code: The whole Python file, with the Triton kernel and its host code.

        Returns:
            The verdict, and what to fix.
        """
        if len(self._grades) >= self.turns or any(grade.verdict.correct for grade in self._grades):
            return "The episode is over."
        self._grades.append(default_grader().grade(self._task, f"```python\n{code}\n```"))
        return self._grades[-1].feedback

    def get_reward(self) -> float:
        """The best kernel's reward; 0 if none was submitted. Raises InfrastructureError if none could be judged."""
        fair = [grade.reward for grade in self._grades if grade.reward is not None]
        if self._grades and not fair:
            raise InfrastructureError(f"no fair verdict: {self._grades[-1].verdict.detail}")
        return max(fair, default=0.0)
