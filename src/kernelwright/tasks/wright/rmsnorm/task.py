"""RMSNorm in bfloat16, as before each block of a Llama."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 8192
DIM = 4096
EPS = 1e-6


class Model(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension."""

    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(dim).to(torch.bfloat16) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight, self.eps)


def get_inputs():
    return [torch.randn(TOKENS, DIM, dtype=torch.bfloat16) * 2.0]


def get_init_inputs():
    return [DIM, EPS]
