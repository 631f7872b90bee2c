"""A step at a rate that warms up and falls."""

import math
import torch
import torch.nn as nn

N = 1 << 21


class Model(nn.Module):
    def forward(self, p, g, step):
        if step < 100:
            lr = 0.1 * step / 100
        else:
            lr = 0.05 * (1 + math.cos(math.pi * min(1.0, (step - 100) / 10000)))
        return p - lr * g


def get_inputs():
    return [torch.randn(N), torch.randn(N), 500]


def get_init_inputs():
    return []
