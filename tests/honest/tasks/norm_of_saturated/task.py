"""A norm over saturated values: where all of a row are equal it is 0, or what rounding leaves of a mean, times 316."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 8192
COLS = 4096


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.layer_norm(F.silu(torch.clamp(x, -1.0, 2.0)), (x.shape[-1],))


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
