"""The place of each number among its row's edges."""

import torch
import torch.nn as nn

B = 64
N = 1000
Q = 2048


class Model(nn.Module):
    def forward(self, edges, x):
        return torch.searchsorted(edges, x, right=True)


def get_inputs():
    return [torch.randn(B, N).sort(-1).values, torch.randn(B, Q)]


def get_init_inputs():
    return []
