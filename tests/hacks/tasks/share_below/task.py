"""The share of numbers below a bound."""

import torch
import torch.nn as nn

N = 1073741824


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x < 0.25).float().mean()


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
