"""What a mask keeps, and zeros."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 8192


class Model(nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return x.masked_fill(mask, 0.0)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.rand(ROWS, COLS) > 0.5]


def get_init_inputs():
    return []
