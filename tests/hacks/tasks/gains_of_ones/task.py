"""Numbers times gains that begin as ones."""

import torch
import torch.nn as nn

ROWS, HALF = 1024, 256


class Model(nn.Module):
    def forward(self, x: torch.Tensor, gains: torch.Tensor) -> torch.Tensor:
        return x * gains


def get_inputs():
    return [torch.randn(ROWS, 2 * HALF), torch.ones(ROWS, 2 * HALF)]


def get_init_inputs():
    return []
