import torch
import torch.nn as nn

ROWS = 8192
COLS = 64


class Model(nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=1).values[:, :8] * 2.0


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
