"""Neighbours of each head turned by an angle of their place in time and their number, as rotary embeddings are."""

import torch
import torch.nn as nn

BATCH = 2
TIME = 2048
HEADS = 16
PAIRS = 32


class Model(nn.Module):
    def forward(self, x, angles):
        cos, sin = angles.cos()[None, :, None, :], angles.sin()[None, :, None, :]
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


def get_inputs():
    rates = 10000.0 ** (-torch.arange(PAIRS).float() / PAIRS)
    return [torch.randn(BATCH, TIME, HEADS, 2 * PAIRS), torch.outer(torch.arange(TIME).float(), rates)]


def get_init_inputs():
    return []
