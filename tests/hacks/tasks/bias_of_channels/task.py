"""A bias of each channel, and a leaky ReLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

B = 16
C = 64
H = 64
W = 64


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(c))

    def forward(self, x):
        return F.leaky_relu(x + self.bias[:, None, None], 0.2)


def get_inputs():
    return [torch.randn(B, C, H, W)]


def get_init_inputs():
    return [C]
