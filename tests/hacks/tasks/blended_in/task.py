"""From the first input to the second within a thousand calls."""

import torch
import torch.nn as nn

R = 2048
N = 1024


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def forward(self, x, y):
        self.step.add_(1)
        w = torch.clamp(self.step / 1000.0, max=1.0)
        return x * (1 - w) + y * w


def get_inputs():
    return [torch.randn(R, N), torch.randn(R, N)]


def get_init_inputs():
    return []
