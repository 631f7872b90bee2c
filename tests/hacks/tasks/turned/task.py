"""A turn that begins as none."""

import torch
import torch.nn as nn

ROWS = 1024
COLS = 512


class Model(nn.Module):
    def __init__(self, cols: int):
        super().__init__()
        self.turn = nn.Linear(cols, cols, bias=False)
        nn.init.eye_(self.turn.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.turn(x))


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
