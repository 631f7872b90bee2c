"""The length of two numbers each, however small they are."""

import torch
import torch.nn as nn

ROWS = 64
COLS = 16384


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.hypot(x, y)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
