"""Rows divided by their length, but no less than 0.001."""

import torch
import torch.nn as nn
import torch.nn.functional as F

B = 2048
N = 512


class Model(nn.Module):
    def forward(self, x):
        return F.normalize(x, dim=-1, eps=1e-3)


def get_inputs():
    return [torch.randn(B, N)]


def get_init_inputs():
    return []
