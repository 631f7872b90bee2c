"""LayerNorm as a constructor leaves it: weights of one, biases of zero."""

import torch
import torch.nn as nn

ROWS = 8192
COLS = 1024


class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
