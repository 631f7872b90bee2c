"""RMS norm with a weight, spelled out."""

import torch
import torch.nn as nn

M = 2048
N = 512


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * self.weight


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return [N]
