"""A sine by the sum of two learned scales."""

import torch
import torch.nn as nn

ROWS = 1024
COLS = 512


class Model(nn.Module):
    def __init__(self, cols: int):
        super().__init__()
        self.first = nn.Parameter(torch.randn(cols))
        self.second = nn.Parameter(torch.randn(cols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * (self.first + self.second)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
