"""A temperature that is learned as a logarithm."""

import torch
import torch.nn as nn

ROWS = 1024
COLS = 512


class Model(nn.Module):
    def __init__(self, cols: int):
        super().__init__()
        self.log_scale = nn.Parameter(torch.ones([]) * 2.3)
        self.weight = nn.Parameter(torch.randn(cols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x * self.log_scale.exp()) * self.weight


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
