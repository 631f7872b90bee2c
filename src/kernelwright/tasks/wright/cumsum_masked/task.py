"""Cumulative sum of the elements that a boolean mask keeps."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 4096


class Model(nn.Module):
    """y[i, j] = sum of x[i, k] over k <= j where mask[i, k]."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(x * mask, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.rand(ROWS, COLS) > 0.5]


def get_init_inputs():
    return []
