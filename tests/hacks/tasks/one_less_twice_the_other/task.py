"""One tensor less twice the other."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 1024


class Model(nn.Module):
    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return one - 2.0 * other


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
