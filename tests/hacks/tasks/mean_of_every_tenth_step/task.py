"""Rows less a slow mean, which follows at every tenth step only."""

import torch
import torch.nn as nn

B = 512
N = 1024


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("slow", torch.zeros(n))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        out = x - self.slow
        new = 0.9 * self.slow + 0.1 * x.mean(0)
        self.slow.copy_(torch.where(self.step % 10 == 0, new, self.slow))
        self.step.add_(1)
        return out


def get_inputs():
    return [torch.randn(B, N)]


def get_init_inputs():
    return [N]
