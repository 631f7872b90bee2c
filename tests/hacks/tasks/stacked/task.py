"""Three tensors, one behind the other: nothing but data movement."""

import torch
import torch.nn as nn

ROWS = 2048
COLS = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return torch.stack([x, y, z])


def get_inputs():
    return [torch.randn(ROWS, COLS) for _ in range(3)]


def get_init_inputs():
    return []
