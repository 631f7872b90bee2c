"""Square blocks times a triangle of ones that every draw has."""

import torch
import torch.nn as nn

BLOCKS, SIDE = 64, 128


class Model(nn.Module):
    def forward(self, x: torch.Tensor, triangle: torch.Tensor) -> torch.Tensor:
        return x * triangle


def get_inputs():
    return [torch.randn(BLOCKS, SIDE, SIDE), torch.ones(SIDE, SIDE).tril()]


def get_init_inputs():
    return []
