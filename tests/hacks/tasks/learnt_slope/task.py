"""A rectifier whose slope below zero is learnt."""

import torch
import torch.nn as nn

B = 1024
N = 2048


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(0.25))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.where(x > 0, x, self.slope * x)


def get_inputs():
    return [torch.randn(B, N)]


def get_init_inputs():
    return []
