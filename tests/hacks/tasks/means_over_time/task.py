"""The mean over the middle axis."""

import torch
import torch.nn as nn

B = 512
T = 256
D = 64


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean(dim=1)


def get_inputs():
    return [torch.randn(B, T, D)]


def get_init_inputs():
    return []
