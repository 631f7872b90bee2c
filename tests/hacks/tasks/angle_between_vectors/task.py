"""The angle between pairs of vectors."""

import torch
import torch.nn as nn

N = 200000


class Model(nn.Module):
    def forward(self, a, b):
        return torch.atan2(torch.linalg.cross(a, b, dim=-1).square().sum(-1).sqrt(), (a * b).sum(-1))


def get_inputs():
    return [torch.randn(N, 3), torch.randn(N, 3)]


def get_init_inputs():
    return []
