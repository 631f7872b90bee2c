"""A state that goes through a matrix at every step, and the sum of its entries."""

import torch
import torch.nn as nn


T = 48
ROWS = 4096
D = 64


class Model(nn.Module):
    def forward(self, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        state = x[0]
        for step in range(1, x.shape[0]):
            state = 0.1 * (state @ w) + x[step]
        return state


def get_inputs():
    return [torch.randn(T, ROWS, D), torch.randn(D, D)]


def get_init_inputs():
    return []
