"""A square of what is scaled and shifted, scaled again."""

import torch
import torch.nn as nn


ROWS = 8192
COLS = 512


class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.inner = nn.Parameter(torch.randn(dim))
        self.shift = nn.Parameter(torch.randn(dim))
        self.outer = nn.Parameter(torch.randn(dim))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * self.inner + self.shift).square() * self.outer


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
