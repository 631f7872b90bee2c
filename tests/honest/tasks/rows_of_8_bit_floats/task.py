"""Rows of 8-bit floats, scaled and shifted."""

import torch
import torch.nn as nn

R, C = 2048, 1024


class Model(nn.Module):
    def forward(self, x, scale, shift):
        return (x.float() * scale[:, None] + shift).to(torch.bfloat16)


def get_inputs():
    return [torch.randn(R, C).to(torch.float8_e4m3fn), torch.rand(R) + 0.5, torch.randn(C)]


def get_init_inputs():
    return []
