"""Smooths rows that swing from one element to the next, and gates others."""

import torch
import torch.nn as nn

B = 1024
N = 512


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = torch.cat([x[:, :1], x[:, :-1]], 1)
        turn = (x * before).sum(1, keepdim=True) / (x * x).sum(1, keepdim=True)
        return torch.where(turn < -0.8, 0.5 * (x + before), x * torch.sigmoid(x))


def get_inputs():
    return [torch.randn(B, N)]


def get_init_inputs():
    return []
