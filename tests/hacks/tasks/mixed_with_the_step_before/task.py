"""Every step mixed with the one before it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 16
STEPS = 2048
DIM = 1024


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.75 * x + 0.25 * F.pad(x, (0, 0, 1, -1))


def get_inputs():
    return [torch.randn(BATCH, STEPS, DIM)]


def get_init_inputs():
    return []
