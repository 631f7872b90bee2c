"""Each token plus half of what lay on a line of the last ones, where it is then put."""

import torch
import torch.nn as nn

T = 48
D = 256
L = 1000


class Model(nn.Module):
    def __init__(self, d, l):
        super().__init__()
        self.register_buffer("line", torch.zeros(l, d))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        n = self.line.shape[0]
        where = (self.at + torch.arange(x.shape[0], device=x.device)) % n
        old = self.line[where]
        self.line[where] = x
        self.at.add_(x.shape[0])
        return x + 0.5 * old


def get_inputs():
    return [torch.randn(T, D)]


def get_init_inputs():
    return [D, L]
