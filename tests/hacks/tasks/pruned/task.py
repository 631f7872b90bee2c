"""Columns that a mask of the module prunes, which begins by keeping all."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 512


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.register_buffer("kept", torch.ones(cols, dtype=torch.bool))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(self.kept, x * x + x, 0.0)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
