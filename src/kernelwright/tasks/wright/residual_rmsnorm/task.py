"""Residual add and RMSNorm; the sum is returned too, for the next residual branch."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 4096
DIM = 3072
EPS = 1e-5


class Model(nn.Module):
    """hidden = x + residual; (rms_norm(hidden) * weight, hidden)."""

    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = x + residual
        return F.rms_norm(hidden, (hidden.shape[-1],), self.weight, self.eps), hidden


def get_inputs():
    return [torch.randn(TOKENS, DIM), torch.randn(TOKENS, DIM)]


def get_init_inputs():
    return [DIM, EPS]
