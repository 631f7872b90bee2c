"""The six largest of each row."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 8192

class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.topk(x, 6, dim=1).values


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
