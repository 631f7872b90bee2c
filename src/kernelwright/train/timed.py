"""Stages of fixed duration: steps for a number of seconds, with a learning rate that decays by time instead of steps.

For machines available for a fixed time, where the number of steps is not known beforehand. Seconds count from the end of the
first step, which includes compilation. A checkpoint stores the seconds used, so a resumed stage has only the rest.
"""

from __future__ import annotations

import math
import time
import uuid
from typing import Any

import transformers
from torch.optim.lr_scheduler import LambdaLR

_PROCESS = uuid.uuid4().hex


class Falling:
    """Learning-rate factor by time; LambdaLR saves its attributes in checkpoints."""

    def __init__(self, seconds: float, steps: int, warmup: float, shape: str) -> None:
        """Ends after `seconds` or `steps`; `warmup`: share of that; `shape`: constant, linear or cosine."""
        self.seconds, self.steps, self.warmup, self.shape = seconds, steps, warmup, shape
        self.spent, self.last, self.process = 0.0, 0.0, ""

    @property
    def over(self) -> bool:
        return self.spent >= self.seconds

    def __call__(self, step: int) -> float:
        now = time.perf_counter()
        if step > 0:
            self.spent += now - self.last if self.process == _PROCESS else 0.0
            self.last, self.process = now, _PROCESS
        done = min(1.0, max(self.spent / self.seconds, step / max(self.steps, 1)))
        if done < self.warmup:
            return done / self.warmup
        rest = (1 - done) / (1 - self.warmup)
        return {"constant": 1.0, "linear": rest, "cosine": 0.5 - 0.5 * math.cos(math.pi * rest)}[self.shape]


class Timed:
    """Mixin before a Trainer: the schedule of a stage whose config has `seconds`."""

    chosen: Any
    """The stage's config: `seconds`, `warmup` and, if it has a choice, `schedule`."""
    falling: Falling | None = None
    lr_scheduler: Any

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """TRL's scheduler, or one by time."""
        if not self.chosen.seconds:
            return super().create_scheduler(num_training_steps, optimizer)  # type: ignore[misc]
        if self.lr_scheduler is None:
            shape = getattr(self.chosen, "schedule", "cosine")
            self.falling = Falling(self.chosen.seconds, num_training_steps, self.chosen.warmup, shape)
            optimizer = optimizer or self.optimizer  # type: ignore[attr-defined]
            self.lr_scheduler = LambdaLR(optimizer, [self.falling] * len(optimizer.param_groups))
        return self.lr_scheduler


class Stop(transformers.TrainerCallback):
    """Ends a timed trainer after a whole step; later callbacks see that step as the last."""

    def __init__(self, trainer: Timed, updates: int = 1) -> None:
        self.trainer, self.updates = trainer, updates

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        falling = self.trainer.falling
        if falling is not None and falling.over and state.global_step % self.updates == 0:
            state.max_steps = state.global_step
            control.should_training_stop = control.should_log = True
        return control
