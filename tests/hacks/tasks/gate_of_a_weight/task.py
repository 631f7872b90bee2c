"""Gate of a weight."""

import torch
import torch.nn as nn

ROWS, COLS = 2048, 1024


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        return x * torch.sigmoid(self.gate)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
