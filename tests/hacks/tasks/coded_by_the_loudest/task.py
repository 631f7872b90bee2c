"""Rows rounded to 255 steps of the largest number met so far."""

import torch
import torch.nn as nn

R = 1024
N = 1024


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("amax", torch.zeros(1))

    def forward(self, x):
        self.amax.copy_(torch.maximum(self.amax, x.abs().max()))
        scale = self.amax / 127.0 + 1e-12
        return torch.clamp(torch.round(x / scale), -127, 127) * scale


def get_inputs():
    return [torch.randn(R, N)]


def get_init_inputs():
    return []
