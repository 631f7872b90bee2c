"""Atomic checkpoints for TRL's trainers, and finding the last one.

A checkpoint holds weights, optimizer, scheduler, RNG states and the trainer's counters. It is written next to its
final place and renamed, so a kill at any moment leaves the previous one. It omits what can be rebuilt: the position
in the curriculum is the step itself, prompts and sampling seeds are functions of (seed, step), and success rates come
from the run's rollouts. With several processes, each saves its own random state and the first saves the rest.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import torch

from kernelwright.runs import new_folder, writing
from kernelwright.train.processes import first

PREFIX = "checkpoint-"
_STAGING = ".saving"


class AtomicCheckpoints:
    """Mixin before a Trainer: saves atomically, keeps only the last checkpoint, writes no model card."""

    args: Any
    state: Any
    accelerator: Any
    model: Any
    optimizer: Any
    compact = False
    """Whether saved states are rounded to bfloat16, and those of the running process with them."""
    _staging: Path | None = None

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._staging or self.args.output_dir)

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """Writes no model card: a step's checkpoint is not for publishing."""

    def save_more(self, folder: Path) -> None:
        """Saves what else a trainer needs; called in every process with the same folder."""

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """TRL's. Does nothing for a sharded model: accelerate saves its full weights next to those of the optimizer."""
        if not is_sharded(self.model):
            super().save_model(output_dir, _internal_call)  # type: ignore[misc]

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        home, name = Path(self.args.output_dir), f"{PREFIX}{self.state.global_step}"
        staging, first = home / f".{name}{_STAGING}", self.accelerator.is_main_process
        if self.compact:
            round_states(self.model, self.optimizer)
        with writing(home / name):
            if first:
                for torn in home.glob(f".{PREFIX}*{_STAGING}"):
                    shutil.rmtree(torn, ignore_errors=True)
                staging.mkdir()
            self.accelerator.wait_for_everyone()
            self._staging = staging
            try:
                super()._save_checkpoint(model, trial)  # type: ignore[misc]
                self.save_more(staging / name)
                self.accelerator.wait_for_everyone()
                if first:
                    if self.compact:
                        shrink(staging / name)
                    shutil.rmtree(home / name, ignore_errors=True)
                    os.replace(staging / name, home / name)
            finally:
                self._staging = None
                if first:
                    shutil.rmtree(staging, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        if first:
            for old in home.glob(f"{PREFIX}*"):
                if old.name != name:
                    shutil.rmtree(old, ignore_errors=True)


def round_states(model: Any, optimizer: Any) -> None:
    """Round weights and optimizer tensors to bfloat16 in place. Scalars such as counters stay exact."""
    inner = getattr(optimizer, "optimizer", optimizer)
    states = [
        value
        for part in getattr(inner, "parts", [inner])
        for state in part.state.values()
        for value in state.values()
    ]
    with torch.no_grad():
        for tensor in (*model.parameters(), *states):
            if _is_half(tensor):
                tensor.copy_(tensor.bfloat16())


def shrink(folder: Path) -> None:
    """Store as bfloat16 what `round_states` rounded; loading widens it again."""
    from safetensors.torch import load_file, save_file

    for path in folder.glob("*model*.safetensors"):
        tensors = {name: _half(tensor) for name, tensor in load_file(path).items()}
        save_file(tensors, path, metadata={"format": "pt"})
    optimizer = folder / "optimizer.pt"
    if optimizer.exists():
        torch.save(_half(torch.load(optimizer, map_location="cpu", weights_only=True)), optimizer)


def _half(value: Any) -> Any:
    """`value` with all float32 tensors inside lists and dicts converted to bfloat16."""
    if isinstance(value, dict):
        return {key: _half(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_half(each) for each in value]
    return value.bfloat16() if _is_half(value) else value


def _is_half(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32 and value.numel() > 1


def last_checkpoint(home: Path) -> Path | None:
    """The checkpoint folder with the highest step in `home`, or None."""
    found = [path for path in home.glob(f"{PREFIX}*") if path.name.removeprefix(PREFIX).isdigit()]
    return max(found, key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(PREFIX))


def save_model(model: Any, tokenizer: Any, path: Path) -> Path:
    """Save a Hugging Face model folder (or an adapter's) atomically.

    Every process must call it, since FSDP splits the weights among them; the first one writes.
    """
    weights = whole_weights(model)
    if first():
        with new_folder(path) as staging:
            chosen = {"selected_adapters": ["default"]} if hasattr(model, "peft_config") else {}
            model.save_pretrained(staging, state_dict=weights, **chosen)
            tokenizer.save_pretrained(staging)
    return path


def is_sharded(model: Any) -> bool:
    """Whether FSDP2 splits the weights of `model` among processes."""
    from torch.distributed.tensor import DTensor

    return any(isinstance(parameter, DTensor) for parameter in model.parameters())


def whole_tensor(parameter: Any) -> Any:
    """The full weight of a parameter that FSDP may split. Every process must call it."""
    return parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter


def whole_weights(model: Any) -> dict[str, Any] | None:
    """The full state dict of a sharded model in the first process, in host memory; empty in the others. None for a model that is not sharded. Every process must call it."""
    if not is_sharded(model):
        return None
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict

    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=options)
