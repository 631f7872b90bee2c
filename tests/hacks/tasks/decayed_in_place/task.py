"""A running mean that is brought up to date in place, and handed back."""

import torch
import torch.nn as nn


N = 8388608


class Model(nn.Module):
    def forward(self, mean: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return mean.lerp_(x, 0.25)


def get_inputs():
    return [torch.randn(N), torch.randn(N)]


def get_init_inputs():
    return []
