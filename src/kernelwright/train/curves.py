"""Logs a training step: a line in curves.jsonl, and a progress bar or a live table.

TRL's own progress bar and log lines are off; its metrics arrive in `on_log` and are kept under their own names in
`trl`, so nothing is lost that the curves do not show.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import transformers

from kernelwright.errors import UserError
from kernelwright.metrics import geometric_mean, plan_entropy
from kernelwright.progress import Bar
from kernelwright.records import Rollout
from kernelwright.runs import RunFolder
from kernelwright.train.board import Board, note

TRACKED = "kernelwright/"


class Curves(transformers.TrainerCallback):
    """Writes a line of curves.jsonl per logged step of `stage`; a trainer adds entries to the next line through `extra`.

    TRL counts weight updates; one step of ours makes `updates` of them and is logged after the last.
    """

    def __init__(self, run: RunFolder, stage: str, *, updates: int = 1, quiet: bool = False) -> None:
        self.run, self.stage, self.updates, self.quiet = run, stage, updates, quiet
        self.extra: dict[str, Any] = {}
        self._bar: Bar | None = None
        self._board: Board | None = None
        self._since = 0.0
        self._shown = 0
        self._held: dict[str, Any] = {}

    @property
    def steps_dir(self) -> Path:
        """Where checkpoints are while the stage runs."""
        return self.run.path / "stages" / self.stage / "steps"

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self._since, self._shown = time.perf_counter(), state.global_step // self.updates
        if state.is_world_process_zero:
            steps, done = state.max_steps // self.updates, state.global_step // self.updates
            if sys.stderr.isatty() and not self.quiet:
                self._board = Board(self.stage, steps, done)
                self._board.start()
            else:
                self._bar = Bar(self.stage, steps, done=done, quiet=self.quiet).__enter__()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Log at each checkpoint and at the last step, so that a resumed run's lines cover the same steps."""
        if state.global_step % args.save_steps == 0 or state.global_step >= state.max_steps:
            control.should_log = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or "loss" not in (logs or {}):
            return
        extra, self.extra = self.extra, {}
        self._check_finite(logs, state.global_step // self.updates)
        now, step = time.perf_counter(), state.global_step // self.updates
        steps, self._shown = max(1, step - self._shown), step
        seconds = {**extra.pop("seconds", {}), "step": round((now - self._since) / steps, 4)}
        if "tokens" in extra and self.stage == "sft":
            extra["tokens"] //= steps
        if "generate" in seconds:
            seconds["update"] = round(max(0.0, seconds["step"] - seconds["generate"] - seconds["verify"]), 3)
        self._since = now
        line = {"stage": self.stage, "step": step, "loss": logs["loss"], **extra, "seconds": seconds}
        # TRL counts tokens since the last resume, so a resumed curve would differ.
        line["trl"] = {
            key: value
            for key, value in logs.items()
            if key not in ("loss", "num_tokens") and not key.startswith(TRACKED)
        }
        self.run.append("curves.jsonl", [line])
        # Held-out losses come only now and then: keep showing the last ones.
        self._held.update({key: value for key, value in line.items() if key.startswith("heldout")})
        if self._bar is not None:
            self._bar.advance(step - self._bar.done, note(self._held | line))
        if self._board is not None:
            self._board.show(step, self._held | line)

    def _check_finite(self, logs: dict[str, Any], step: int) -> None:
        """Raises UserError for a loss or gradient that is not finite, before a checkpoint contains its effect."""
        for name in ("loss", "grad_norm"):
            if name in logs and not math.isfinite(logs[name]):
                raise UserError(
                    f"{self.stage}: the {name} of step {step} is {logs[name]}; the last checkpoint is from before it: go on with "
                    f"--resume, or begin anew with a lower {self.stage}.learning_rate or {self.stage}.max_grad_norm"
                )

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the progress bar or the table, however the training ended."""
        if self._board is not None:
            self._board.stop()
            self._board = None
        if self._bar is not None:
            self._bar.__exit__(None, None, None)
            self._bar = None


def tracker_metrics(extra: dict[str, Any]) -> dict[str, float]:
    """The numbers in a line of the curves, named for trackers: `kernelwright/pass_rate`, and the share of each outcome as
    `kernelwright/outcomes/NAME`."""
    numbers = {name: value for name, value in extra.items() if isinstance(value, (int, float))}
    outcomes = extra.get("outcomes", {})
    total = sum(outcomes.values()) or 1
    shares = {f"outcomes/{name}": count / total for name, count in outcomes.items()}
    seconds = {f"seconds/{name}": value for name, value in extra.get("seconds", {}).items()}
    nats = {f"nats/{name}": value for name, value in (extra.get("nats") or {}).items() if value is not None}
    return {f"{TRACKED}{name}": float(value) for name, value in (numbers | shares | seconds | nats).items()}


def rollout_curve(groups: Sequence[Sequence[Rollout]]) -> dict[str, Any]:
    """The figures of one step's rollouts. Means are over rollouts with a fair verdict; None if there are none."""
    rollouts = [rollout for group in groups for rollout in group]
    judged = [r for r in rollouts if r.verdict.outcome.judged]
    rewards = [r.reward for r in judged if r.reward is not None and r.reward.total is not None]
    speedups = [s for r in judged if (s := r.verdict.speedup()) is not None]
    known = [k for r in judged if r.verdict.timing and (k := r.verdict.timing.over_known()) is not None]
    outcomes: dict[str, int] = {}
    for rollout in rollouts:
        outcomes[rollout.verdict.outcome] = outcomes.get(rollout.verdict.outcome, 0) + 1
    return {
        "reward": _mean([r.total for r in rewards]),
        "reward_plan": _mean([r.plan for r in rewards]),
        "reward_code": _mean([r.code for r in rewards]),
        "pass_rate": _mean([float(r.verdict.correct) for r in judged]),
        "compile_rate": _mean([float(r.verdict.outcome.compiled) for r in judged]),
        "format_rate": _mean([float(r.verdict.outcome.well_formed) for r in judged]),
        "speedup": geometric_mean(speedups) if speedups else None,
        "over_known": geometric_mean(known) if known else None,
        "nats": plan_entropy(rollouts),
        "outcomes": outcomes,
        "clipped": _mean([float(r.completion.finish_reason == "length") for r in rollouts]),
        "tokens": sum(len(r.completion.token_ids or ()) for r in rollouts),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
