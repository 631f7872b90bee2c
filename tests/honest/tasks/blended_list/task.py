"""Three tensors in a list, added up with weights."""

import torch
import torch.nn as nn

ROWS = 2048
COLS = 4096


class Model(nn.Module):
    def forward(self, parts: list[torch.Tensor]) -> torch.Tensor:
        return parts[0] * 0.5 + parts[1] * 0.25 - parts[2]


def get_inputs():
    return [[torch.randn(ROWS, COLS) for _ in range(3)]]


def get_init_inputs():
    return []
