"""Rows less the mean of the last batches, kept in a ring."""

import torch
import torch.nn as nn

B = 64
N = 1024
L = 32


class Model(nn.Module):
    def __init__(self, n, l):
        super().__init__()
        self.register_buffer("ring", torch.zeros(l, n))
        self.register_buffer("pos", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        at = self.pos % self.ring.shape[0]
        self.ring.index_copy_(0, at[None], x.mean(0, keepdim=True))
        self.pos.add_(1)
        return x - self.ring.mean(0)


def get_inputs():
    return [torch.randn(B, N)]


def get_init_inputs():
    return [N, L]
