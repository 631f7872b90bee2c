"""Two learned scales of one size, one behind the other."""

import torch
import torch.nn as nn

ROWS = 1024
COLS = 512


class Model(nn.Module):
    def __init__(self, cols: int):
        super().__init__()
        self.first = nn.Parameter(torch.ones(cols))
        self.second = nn.Parameter(torch.ones(cols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.first) * self.second


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
