"""Muon for the matrices of a model and AdamW for the rest, as one optimizer for TRL's trainers.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/; `torch.optim.Muon`) orthogonalises the momentum
of every weight matrix. On a very small model trained from scratch it learns in 800 steps what AdamW does not in
2,400 (`docs/log.md`). Embeddings, the head and vectors stay with AdamW, as its authors advise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn


class Together(torch.optim.Optimizer):
    """Several optimizers that step as one. Schedulers scale the rate of every group from its own start."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = list(parts)
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Groups are the parts' own objects, so that a rate set here is one set there."""
        self.param_groups = [group for part in self.parts for group in part.param_groups]

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None if closure is None else closure()
        for part in self.parts:
            part.step()
        return loss

    def state_dict(self) -> dict[str, Any]:
        return {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for part, state in zip(self.parts, state_dict["parts"], strict=True):
            part.load_state_dict(state)
        self._share()


def muon(model: nn.Module, matrix_rate: float, rate: float, weight_decay: float) -> Together:
    """Muon at `matrix_rate` for the weight matrices inside layers, AdamW at `rate` for all else that is trained."""
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    ends = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        inner = parameter.ndim == 2 and id(parameter) not in ends and not name.startswith("lm_head")
        (matrices if inner else rest).append(parameter)
    parts: list[torch.optim.Optimizer] = [
        torch.optim.Muon(matrices, lr=matrix_rate, weight_decay=weight_decay),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.99), weight_decay=0.0),
    ]
    return Together(parts)


class ChosenOptimizer:
    """Mixin, before a Trainer: the optimizer that the stage's config names."""

    optimizer: Any
    model: Any
    chosen: Any
    """The stage's config: `optimizer`, `matrix_rate`, `learning_rate`, `weight_decay`."""

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        if self.chosen.optimizer == "adamw":
            return super().create_optimizer(*args, **kwargs)  # type: ignore[misc]
        if self.optimizer is None:
            config = self.chosen
            self.optimizer = muon(self.model, config.matrix_rate, config.learning_rate, config.weight_decay)
        return self.optimizer
