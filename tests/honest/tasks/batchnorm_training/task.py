"""BatchNorm1d in training: the batch's statistics, and running ones that follow them."""

import torch
import torch.nn as nn

N = 512
C = 256


class Model(nn.Module):
    def __init__(self, channels: int):
        super().__init__()
        self.bn = nn.BatchNorm1d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.bn(x)


def get_inputs():
    return [torch.randn(N, C) * 2.0 + 0.5]


def get_init_inputs():
    return [C]
