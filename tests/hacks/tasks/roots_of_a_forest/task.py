"""The root above each node."""

import torch
import torch.nn as nn

N = 65536


class Model(nn.Module):
    def forward(self, parent):
        for _ in range(16):
            parent = parent[parent]
        return parent


def get_inputs():
    return [(torch.rand(N) * torch.arange(N)).long()]


def get_init_inputs():
    return []
