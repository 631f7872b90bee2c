"""Rows scaled to length one, with an epsilon."""

import torch
import torch.nn as nn

BATCH = 8192
DIM = 1024


class Model(nn.Module):
    def forward(self, x):
        return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-8)


def get_inputs():
    return [torch.randn(BATCH, DIM)]


def get_init_inputs():
    return []
