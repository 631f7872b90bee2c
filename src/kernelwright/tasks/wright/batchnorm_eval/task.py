"""BatchNorm2d at inference: running statistics, not the batch's."""

import torch
import torch.nn as nn
import torch.nn.functional as F

N = 32
C = 64
H = 96
W = 96


class Model(nn.Module):
    """(x - running_mean) / sqrt(running_var + eps) * weight + bias, per channel of NCHW."""

    def __init__(self, channels: int):
        super().__init__()
        self.bn = nn.BatchNorm2d(channels)
        nn.init.uniform_(self.bn.weight, 0.5, 1.5)
        nn.init.normal_(self.bn.bias)
        nn.init.normal_(self.bn.running_mean)
        nn.init.uniform_(self.bn.running_var, 0.5, 2.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        bn = self.bn
        return F.batch_norm(
            x, bn.running_mean, bn.running_var, bn.weight, bn.bias, training=False, eps=bn.eps
        )


def get_inputs():
    return [torch.randn(N, C, H, W)]


def get_init_inputs():
    return [C]
