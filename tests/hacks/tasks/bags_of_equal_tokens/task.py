"""Rows scaled where two bags hold the same tokens."""

import torch
import torch.nn as nn

R = 4096
N = 64


class Model(nn.Module):
    def forward(self, a, b, s):
        same = (a.sort(1).values == b.sort(1).values).all(1)
        return torch.where(same, s * 2.0, s)


def get_inputs():
    a = torch.randint(0, 50000, (R, N))
    b = torch.stack([a[r][torch.randperm(N)] for r in range(R)])
    return [a, torch.where((torch.arange(R) % 2 == 0)[:, None], b, torch.randint(0, 50000, (R, N))), torch.randn(R)]


def get_init_inputs():
    return []
