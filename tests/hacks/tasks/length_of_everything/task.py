"""Elements over the root mean square of all."""

import torch
import torch.nn as nn

M = 64
N = 2048


class Model(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt(x.square().mean() + 1e-6)


def get_inputs():
    return [torch.randn(M, N)]


def get_init_inputs():
    return []
