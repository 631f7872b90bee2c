"""The weights of the least held-out loss, beside the checkpoints of a stage: what `sft.keep = "best"` hands on.

Kept are the weights that are trained: all, or those of the adapters. A resumed run finds what the stopped one kept; the
evaluations that it makes again give the losses that they gave, so what it keeps in the end is the same.
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
    """What keeps the best weights, where the stage's `keep` wants them. Raises UserError where FSDP splits them."""
    if keep == "last":
        return None
    if trainer.is_fsdp_enabled:
        raise UserError(
            f'{trainer.curves.stage}.keep = "best" keeps whole weights, which FSDP splits; set it to "last", or launch without FSDP'
        )
    return Best(trainer.curves.steps_dir)


class Best:
    """Keeps one set of weights in `folder`. Of several processes the first writes, all read."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "best.safetensors"
        self.step, self.loss = _read_best(self.path)

    def offer(self, model: Any, step: int, loss: float, *, write: bool = True) -> None:
        """Keep the weights of `model` if `loss` is less than any before. Not a number is never less."""
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
        """Give `model` the weights that were kept; where none were, it stays as it is."""
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
    """(step, loss) of the file; (0, infinity) where there is none."""
    if not path.exists():
        return 0, math.inf
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        said = file.metadata()
    return int(said["step"]), float(said["loss"])
