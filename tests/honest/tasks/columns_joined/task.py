"""Columns of two tensors side by side: half of the programs read one of them, half the other."""

import torch
import torch.nn as nn

ROWS = 2048
COLS = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cat([x, y], dim=1))


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
