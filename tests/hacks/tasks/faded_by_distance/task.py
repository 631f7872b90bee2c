"""Rows mixed by weights that fade with distance, at a slope that is an input."""

import torch
import torch.nn as nn

BATCH = 2
LENGTH = 1024
WIDTH = 128


class Model(nn.Module):
    def forward(self, x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        at = torch.arange(x.shape[1], device=x.device)
        distance = (at[:, None] - at[None, :]).abs().float()
        weights = torch.exp(-distance * slope.float().abs() * 1e-3).to(x.dtype)
        return weights @ x


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), torch.rand(1) + 0.5]


def get_init_inputs():
    return []
