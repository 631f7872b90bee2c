"""An average over windows of a volume: torch has no such kernel for bfloat16 on a CPU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
CHANNELS = 16
SIDE = 48


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.avg_pool3d(x, 2)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE, SIDE)]


def get_init_inputs():
    return []
