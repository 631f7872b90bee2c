"""The magnitude of gains that begin between 0 and 1."""

import torch
import torch.nn as nn

ROWS = 8192
COLS = 1024


class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * self.gain.abs()


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
