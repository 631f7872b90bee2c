"""A layer norm."""

import torch
import torch.nn as nn

M = 1024
N = 512


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return [N]
