"""A learned affine map per feature, squashed by tanh (dynamic tanh, a norm-free transformer's norm)."""

import torch
import torch.nn as nn

BATCH = 8192
DIM = 2048


class Model(nn.Module):
    """tanh(x * scale + shift), scale and shift per feature."""

    def __init__(self, dim: int):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(dim) + 0.5)
        self.shift = nn.Parameter(torch.randn(dim) * 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * self.scale + self.shift)


def get_inputs():
    return [torch.randn(BATCH, DIM)]


def get_init_inputs():
    return [DIM]
