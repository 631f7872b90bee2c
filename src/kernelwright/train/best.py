"""Keeps the weights with the least held-out loss next to a stage's checkpoints, for `keep = "best"`.

Only trained weights are kept: all, or those of the adapters. A resumed run reads the file of the stopped one; repeated
evaluations give the same losses, so the final result is the same.
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import torch

from kernelwright.errors import UserError
from kernelwright.runs import writing


def best_of(trainer: Any, keep: str) -> Best | None:
    """A `Best` if `keep` is "best", None if it is "last". Raises UserError if FSDP splits the weights."""
    if keep == "last":
        return None
    if trainer.is_fsdp_enabled:
        raise UserError(
            f'{trainer.curves.stage}.keep = "best" keeps whole weights, which FSDP splits; set it to "last", or launch without FSDP'
        )
    return Best(trainer.curves.steps_dir)


class Best:
    """Keeps one set of weights in `folder`. With several processes, the first writes and all read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "best.safetensors"
        self.step, self.loss = _read_best(self.path)

    def offer(self, model: Any, step: int, loss: float, *, write: bool = True) -> None:
        """Keep the weights of `model` if `loss` is less than any before. NaN never is."""
        if not loss < self.loss:
            return
        self.step, self.loss = step, loss
        if write:
            from safetensors.torch import save_file

            staging = self.path.with_name(f".{self.path.name}.saving")
            with writing(self.path):
                weights = {name: weight.detach().contiguous() for name, weight in _trained(model)}
                save_file(weights, staging, metadata={"step": str(step), "loss": repr(loss)})
                os.replace(staging, self.path)

    def restore(self, model: Any) -> None:
        """Load the kept weights into `model`; without any, leave it unchanged."""
        if not self.path.exists():
            return
        from safetensors.torch import load_file

        kept = load_file(self.path)
        with torch.no_grad():
            for name, weight in _trained(model):
                weight.copy_(kept[name])


def _trained(model: Any) -> list[tuple[str, Any]]:
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]


def _read_best(path: Path) -> tuple[int, float]:
    """(step, loss) of the file; (0, infinity) if there is none."""
    if not path.exists():
        return 0, math.inf
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    return int(metadata["step"]), float(metadata["loss"])
