"""SiLU of a linear layer's outputs."""

import torch
import torch.nn as nn

ROWS = 2048
INNER = 512
COLS = 512


class Model(nn.Module):
    def __init__(self, inner: int, cols: int):
        super().__init__()
        self.linear = nn.Linear(inner, cols, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(self.linear(x))


def get_inputs():
    return [torch.randn(ROWS, INNER)]


def get_init_inputs():
    return [INNER, COLS]
