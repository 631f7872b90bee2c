"""A group norm of long signals, then SiLU."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F

B = 4
C = 32
L = 8192


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(8, c)

    def forward(self, x):
        return F.silu(self.norm(x))


def get_inputs():
    return [torch.randn(B, C, L)]


def get_init_inputs():
    return [C]
