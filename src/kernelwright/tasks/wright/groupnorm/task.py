"""GroupNorm over NCHW with affine parameters."""

import torch
import torch.nn as nn

N = 16
C = 128
H = 96
W = 96
GROUPS = 32


class Model(nn.Module):
    """Normalise each group of channels of each sample, then scale and shift per channel."""

    def __init__(self, groups: int, channels: int):
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(N, C, H, W) * 1.5 + 0.3]


def get_init_inputs():
    return [GROUPS, C]
