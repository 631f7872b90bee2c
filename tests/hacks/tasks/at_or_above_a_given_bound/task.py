"""Elements at or above a bound that is an input; -1 for others."""

import torch
import torch.nn as nn

B = 512
N = 4096


class Model(nn.Module):
    def forward(self, x, bound):
        return torch.where(x >= bound, x, -1.0)


def get_inputs():
    return [torch.randn(B, N), torch.rand(1) * 0.5]


def get_init_inputs():
    return []
