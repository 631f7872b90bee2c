"""SkyRL-gym (0.4): a text environment with repair turns.

    from skyrl_gym.envs import register
    register(id="kernelwright", entry_point="kernelwright.adapters.for_skyrl:KernelEnv")

Extras of a row: `reward_spec = {"ground_truth": task}`, and `max_turns` (1 by default). If the judge fails repeatedly, `step`
raises, since SkyRL-gym cannot leave out a step's reward.
"""

from __future__ import annotations

from typing import Any

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput

from kernelwright.adapters.grading import default_grader, read_task
from kernelwright.errors import UserError


class KernelEnv(BaseTextEnv):
    """One task; an episode ends with the first accepted kernel or after `max_turns` answers."""

    def __init__(self, env_config: Any = None, extras: dict[str, Any] | None = None) -> None:
        super().__init__()
        extras = extras or {}
        truth = (extras.get("reward_spec") or {}).get("ground_truth")
        if not truth:
            raise UserError(
                "a row has no reward_spec.ground_truth: put the row's task of grading.task_rows there"
            )
        self._task = read_task(truth)
        self._preset = str(extras.get("preset", "wright"))
        self.max_turns = int(extras.get("max_turns", 1))

    def step(self, action: str) -> BaseTextEnvStepOutput:
        """Judge one answer. Raises InfrastructureError if the judge failed."""
        self.turns += 1
        grade = default_grader(self._preset).grade(self._task, action)
        done = grade.verdict.correct or self.turns >= self.max_turns
        return BaseTextEnvStepOutput(
            observations=[] if done else [{"role": "user", "content": grade.feedback}],
            reward=grade.fair_reward(),
            done=done,
            metadata={"outcome": grade.verdict.outcome.value, **grade.metrics()},
        )
