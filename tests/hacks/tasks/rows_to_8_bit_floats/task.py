"""Rows scaled to the largest 8-bit float, rounded to those."""

import torch
import torch.nn as nn

B = 2048
N = 1024


class Model(nn.Module):
    def forward(self, x):
        s = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448.0
        return (x / s).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), s


def get_inputs():
    return [torch.randn(B, N)]


def get_init_inputs():
    return []
