"""A table of values looked up by position in [0, 1): interpolation to the nearest."""

import torch
import torch.nn as nn

N = 4194304
SIZE = 256


class Model(nn.Module):
    def forward(self, x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        return table[(x.clamp(0.0, 0.999) * table.numel()).long()]


def get_inputs():
    return [torch.rand(N), torch.randn(SIZE)]


def get_init_inputs():
    return []
