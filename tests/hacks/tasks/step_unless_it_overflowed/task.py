"""A step with momentum along scaled gradients, left out if one of them overflowed."""

import torch
import torch.nn as nn

N = 1 << 22


class Model(nn.Module):
    def forward(self, p, g, m, scale):
        g = g / scale
        taken = torch.isfinite(g).all()
        ahead = 0.9 * m + g
        return torch.where(taken, p - 0.01 * ahead, p), torch.where(taken, ahead, m)


def get_inputs():
    return [torch.randn(N), torch.randn(N) * 1024, torch.randn(N), torch.full((1,), 1024.0)]


def get_init_inputs():
    return []
