"""Muon for the matrices of a model and AdamW for the rest, combined into one optimizer for TRL's trainers.

Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/; `torch.optim.Muon`) orthogonalises the momentum
of every weight matrix. A very small model trained from scratch learns with it in 800 steps what AdamW does not learn
in 2,400 (`docs/history/log.md`). Embeddings, the head and vectors use AdamW, as Muon's authors advise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn


class Together(torch.optim.Optimizer):
    """Several optimizers that step as one. Schedulers scale every group's rate from its own initial value."""

    def __init__(self, parts: Sequence[torch.optim.Optimizer]) -> None:
        self.parts = list(parts)
        super().__init__([group for part in parts for group in part.param_groups], {})
        self._share()

    def _share(self) -> None:
        """Use the parts' own group objects, so that a rate set here is set there."""
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


class BatchedMuon(torch.optim.Muon):
    """`torch.optim.Muon` with the same state and arithmetic, but a few kernels for all matrices of one shape.

    Matrix by matrix, a small model's step is a thousand kernels, each faster on the GPU than its launch on the host.
    """

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None if closure is None else closure()
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            if not moved:
                continue
            grads = [p.grad for p in moved]
            for p in moved:
                if "momentum_buffer" not in self.state[p]:
                    self.state[p]["momentum_buffer"] = torch.zeros_like(p.grad)
            momenta = [self.state[p]["momentum_buffer"] for p in moved]
            torch._foreach_lerp_(momenta, grads, 1 - group["momentum"])
            updates = momenta
            if group["nesterov"]:
                updates = list(torch._foreach_lerp(grads, momenta, group["momentum"]))
            ways = directions(updates, group["ns_coefficients"], group["ns_steps"], group["eps"])
            if group["adjust_lr_fn"] == "match_rms_adamw":
                ratios = [0.2 * math.sqrt(max(p.shape)) for p in moved]
            else:
                ratios = [math.sqrt(max(1.0, p.shape[0] / p.shape[1])) for p in moved]
            torch._foreach_mul_(moved, 1 - group["lr"] * group["weight_decay"])
            torch._foreach_mul_(ways, [-group["lr"] * ratio for ratio in ratios])
            torch._foreach_add_(moved, ways)
        return loss


def directions(
    updates: Sequence[torch.Tensor], coefficients: tuple[float, float, float], steps: int, eps: float
) -> list[torch.Tensor]:
    """Each matrix (m, n) with its singular values brought near 1 by Newton-Schulz iterations (bfloat16 on a GPU); returns float32.

    Matrices of the same shape, up to transposition, are processed as one batch.
    """
    a, b, c = coefficients
    shapes: dict[tuple[int, int], list[int]] = {}
    for place, update in enumerate(updates):
        shapes.setdefault((min(update.shape), max(update.shape)), []).append(place)
    made: list[torch.Tensor] = [*updates]
    for places in shapes.values():
        places.sort(key=lambda place: updates[place].shape[0] > updates[place].shape[1])
        tall = sum(updates[place].shape[0] > updates[place].shape[1] for place in places)
        x = torch.stack(
            [updates[p] if i < len(places) - tall else updates[p].mT for i, p in enumerate(places)]
        )
        x = x.bfloat16() if x.is_cuda else x.float()  # most CPUs are fourteen times slower in bfloat16
        x /= torch.linalg.matrix_norm(x, keepdim=True).clamp(min=eps)
        for _ in range(steps):
            gram = x @ x.mT
            x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
        # Same layout as the weights; otherwise the foreach addition would run one matrix at a time.
        wide, turned = x.float().split([len(places) - tall, tall])
        for place, direction in zip(places, (*wide, *turned.mT.contiguous()), strict=True):
            made[place] = direction
    return made


def muon(model: nn.Module, matrix_rate: float, rate: float, weight_decay: float) -> Together:
    """Muon at `matrix_rate` for weight matrices inside layers, AdamW at `rate` for all other trained weights."""
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    ends = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        inner = parameter.ndim == 2 and id(parameter) not in ends and not name.startswith("lm_head")
        (matrices if inner else rest).append(parameter)
    parts: list[torch.optim.Optimizer] = [BatchedMuon(matrices, lr=matrix_rate, weight_decay=weight_decay)]
    if rest:  # with adapters, only matrices are trained
        parts.append(
            torch.optim.AdamW(
                rest, lr=rate, betas=(0.9, 0.99), weight_decay=0.0, fused=rest[0].is_cuda or None
            )
        )
    return Together(parts)


class ChosenOptimizer:
    """Mixin before a Trainer: uses the optimizer named in the stage's config."""

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
