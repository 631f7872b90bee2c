"""Images sampled at grid points between -1 and 1."""

import torch
import torch.nn as nn
import torch.nn.functional as F

B, C = 4, 16
H, W = 64, 64
HO, WO = 96, 96


class Model(nn.Module):
    """Bilinear; zeros outside."""

    def forward(self, x, grid):
        return F.grid_sample(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def get_inputs():
    return [torch.randn(B, C, H, W), torch.rand(B, HO, WO, 2) * 2 - 1]


def get_init_inputs():
    return []
