"""A diagonal matrix times a matrix, written as torch does it: the diagonal is spread out first."""

import torch
import torch.nn as nn

N = 4096
M = 4096


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.diag(a) @ b


def get_inputs():
    return [torch.randn(N), torch.randn(N, M)]


def get_init_inputs():
    return []
