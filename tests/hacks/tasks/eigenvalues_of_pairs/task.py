"""Eigenvalues of symmetric matrices of two rows."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F

B = 8
H = 256
W = 256


class Model(nn.Module):
    def forward(self, a, b, d):
        mean, half = (a + d) / 2, (a - d) / 2
        r = torch.sqrt(half * half + b * b)
        return mean + r, mean - r


def get_inputs():
    return [torch.randn(B, H, W), torch.randn(B, H, W), torch.randn(B, H, W)]


def get_init_inputs():
    return []
