"""Positions added where a number is positive: positions and truth values that become bfloat16."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 2048


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(x.shape[1], device=x.device).to(x.dtype) * (x > 0).to(x.dtype)


def get_inputs():
    return [torch.randn(ROWS, COLS, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
