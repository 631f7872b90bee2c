"""Queries, keys and values of rows."""

import torch
import torch.nn as nn

M = 512
D = 256


class Model(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q = nn.Linear(d, d, bias=False)
        self.k = nn.Linear(d, d, bias=False)
        self.v = nn.Linear(d, d, bias=False)

    def forward(self, x):
        return self.q(x), self.k(x), self.v(x)


def get_inputs():
    return [torch.randn(M, D)]


def get_init_inputs():
    return [D]
