"""A branch behind a learnt scale that begins as next to nothing."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 8192
COLS = 1024


class Model(nn.Module):
    def __init__(self, cols: int):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((cols,), 1e-6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gamma * F.silu(x)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
