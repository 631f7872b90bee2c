"""Rows as 8-bit floats would hold them, each scaled by its largest element."""

import torch
import torch.nn as nn

ROWS, WIDTH = 2048, 1024


class Model(nn.Module):
    def forward(self, x):
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 448.0
        return (x / scale).to(torch.float8_e4m3fn).to(x.dtype) * scale


def get_inputs():
    return [torch.randn(ROWS, WIDTH)]


def get_init_inputs():
    return []
