"""OpenEnv (0.10): an environment whose actions are kernels, and its app.

    uvicorn kernelwright.adapters.for_openenv:app

`reset(task_id="wright/relu")` chooses a task (`seed` draws one); `step` judges. If the judge fails, the observation has
`reward` None, and the trainer must leave it out.
"""

from __future__ import annotations

import functools
import os
import random
from typing import Any

from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State

from kernelwright.adapters.grading import default_grader, read_task, task_rows
from kernelwright.errors import UserError

SUITE_VARIABLE, TURNS = "KERNELWRIGHT_SUITE", 3


class KernelAction(Action):
    """A model's answer, with plan and code as it wrote them."""

    completion: str


class KernelObservation(Observation):
    """The messages and outcome that the model sees."""

    messages: tuple[dict[str, str], ...] = ()
    outcome: str = ""


class KernelEnvironment(Environment[KernelAction, KernelObservation, State]):
    """One task per episode, which ends with an accepted kernel or after three answers."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._row: dict[str, Any] | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task_id: str = "", **options: Any
    ) -> KernelObservation:
        """The prompt of a task. Raises UserError for an unknown `task_id`."""
        rows = _rows()
        if task_id and task_id not in rows:
            raise UserError(f"no task {task_id!r}: choose one of {', '.join(list(rows)[:5])}, ...")
        self._row = rows[task_id or random.Random(seed).choice(sorted(rows))]
        self._state = State(episode_id=episode_id, step_count=0)
        return KernelObservation(messages=tuple(self._row["prompt"]))

    def step(self, action: KernelAction, timeout_s: float | None = None, **options: Any) -> KernelObservation:
        """Judge one answer."""
        if self._row is None:
            self.reset()
        assert self._row is not None
        self._state.step_count += 1
        grade = default_grader().grade(read_task(self._row["task"]), action.completion)
        done = grade.verdict.correct or self._state.step_count >= TURNS
        return KernelObservation(
            done=done,
            reward=grade.reward,
            outcome=grade.verdict.outcome.value,
            messages=() if done else ({"role": "user", "content": grade.feedback},),
            metadata=grade.metrics(),
        )

    @property
    def state(self) -> State:
        return self._state


@functools.lru_cache(maxsize=1)
def _rows() -> dict[str, dict[str, Any]]:
    return {row["task_id"]: row for row in task_rows(os.environ.get(SUITE_VARIABLE, "wright"))}


app = create_app(KernelEnvironment, KernelAction, KernelObservation, env_name="kernelwright")
