"""Rotary embedding with other frequencies for all rows if one is long."""

import torch
import torch.nn as nn

B = 8
T = 512
D = 64


class Model(nn.Module):
    def forward(self, x, pos, short, long):
        f = torch.where(pos.max() + 1 > 4096, long, short)
        h = x.shape[2] // 2
        a = pos[:, :, None].to(x.dtype) * f
        c, s = a.cos(), a.sin()
        return torch.cat([x[..., :h] * c - x[..., h:] * s, x[..., h:] * c + x[..., :h] * s], -1)


def get_inputs():
    f = 10000.0 ** (-torch.arange(D // 2) * 2.0 / D)
    return [torch.randn(B, T, D), torch.arange(T).repeat(B, 1) + torch.randint(0, 2048, (B, 1)), f, f / (1 + torch.rand(D // 2))]


def get_init_inputs():
    return []
