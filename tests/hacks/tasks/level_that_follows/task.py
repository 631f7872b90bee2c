"""A level that follows what comes, and that is taken off the next time."""

import torch
import torch.nn as nn

ROWS = 2048
COLS = 1024


class Model(nn.Module):
    def __init__(self, cols: int):
        super().__init__()
        self.register_buffer("level", torch.zeros(cols))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = torch.tanh(x - self.level)
        with torch.no_grad():
            self.level.mul_(0.75).add_(x[0], alpha=0.25)
        return out


def get_inputs():
    return [torch.randn(ROWS, COLS) + 0.5]


def get_init_inputs():
    return [COLS]
