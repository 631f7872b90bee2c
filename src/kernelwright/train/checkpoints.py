"""Checkpoints that are whole or absent, for TRL's trainers, and finding the last one.

A checkpoint holds weights, optimizer, scheduler, RNG states and the trainer's counters. It is written beside
its place and renamed into it, so a kill at any moment leaves the one before. The position in the curriculum
is the step itself: prompts and sampling seeds are functions of (seed, step).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from kernelwright.runs import new_folder

PREFIX = "checkpoint-"
_STAGING = ".saving"


class AtomicCheckpoints:
    """Mixin, before a Trainer: saves whole folders, keeps only the last, writes no model card."""

    args: Any
    state: Any
    _staging: Path | None = None

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._staging or self.args.output_dir)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """No card: a step's checkpoint is not for publishing."""

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        home, name = Path(self.args.output_dir), f"{PREFIX}{self.state.global_step}"
        with new_folder(home / name) as staging:
            self._staging = staging
            try:
                super()._save_checkpoint(model, trial)  # type: ignore[misc]
            finally:
                self._staging = None
            for item in (staging / name).iterdir():
                item.rename(staging / item.name)
            (staging / name).rmdir()
        for old in home.glob(f"{PREFIX}*"):
            if old.name != name:
                shutil.rmtree(old, ignore_errors=True)


def last_checkpoint(home: Path) -> Path | None:
    """The checkpoint folder with the highest step in `home`, or None."""
    found = [path for path in home.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdigit()]
    return max(found, key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(PREFIX))


def save_model(model: Any, tokenizer: Any, path: Path) -> Path:
    """A Hugging Face model folder, whole or not at all."""
    with new_folder(path) as staging:
        model.save_pretrained(staging)
        tokenizer.save_pretrained(staging)
    return path
