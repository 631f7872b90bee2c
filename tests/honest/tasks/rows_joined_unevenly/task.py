"""Two tensors one below the other, of which the second is short."""

import torch
import torch.nn as nn

FIRST = 46
SECOND = 12
COLS = 9920


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, y], dim=0)


def get_inputs():
    return [torch.randn(FIRST, COLS), torch.randn(SECOND, COLS)]


def get_init_inputs():
    return []
