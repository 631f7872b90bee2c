"""verifiers (0.4): a taskset rewarded by the judge.

    # kernel_tasks.py, a module next to your configuration (verifiers finds tasksets by top-level names):
    from kernelwright.adapters.for_verifiers import KernelTaskset
    __all__ = ["KernelTaskset"]

    vf-eval kernel_tasks --env.taskset.suite wright

If the judge fails, the reward raises; verifiers records that as the rollout's error and leaves the sample out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import verifiers.v1 as vf

from kernelwright.adapters.grading import Grade, default_grader, read_task, task_rows


class KernelData(vf.TaskData):
    """One task of a suite."""

    task: str
    """The Task record as JSON."""


class KernelTaskConfig(vf.TaskConfig):
    preset: str = "wright"
    """The reward preset."""


class KernelTask(vf.Task[KernelData, vf.State, KernelTaskConfig]):
    """Rewarded by the verdict on the last answer."""

    @vf.reward
    async def kernel(self, trace: vf.Trace) -> float:
        """The preset's reward. Raises InfrastructureError if the judge failed."""
        return (await self._grade(trace)).fair_reward()

    @vf.metric
    async def correct(self, trace: vf.Trace) -> float:
        """1 for an accepted kernel."""
        return (await self._grade(trace)).metrics()["correct"]

    async def _grade(self, trace: vf.Trace) -> Grade:
        # Equal answers are judged once: the pool and the service cache verdicts by content.
        task_row, answer = read_task(self.data.task), trace.last_reply
        return await asyncio.to_thread(default_grader(self.config.preset).grade, task_row, answer)


class KernelTasksetConfig(vf.TasksetConfig):
    suite: str = "wright"
    limit: int = 0
    task: KernelTaskConfig = KernelTaskConfig()


class KernelTaskset(vf.Taskset[KernelTask, KernelTasksetConfig]):
    """The tasks of a suite."""

    def load(self) -> Iterable[KernelTask]:
        for row in task_rows(self.config.suite, self.config.limit):
            system, user = (message["content"] for message in row["prompt"])
            data = KernelData(name=row["task_id"], prompt=user, system_prompt=system, task=row["task"])
            yield KernelTask(data, self.config.task)


__all__ = ["KernelTaskset"]
