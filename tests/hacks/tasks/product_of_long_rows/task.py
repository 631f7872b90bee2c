"""A product with a long inner size."""

import torch
import torch.nn as nn

M = 1024
N = 1024
K = 8192


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
