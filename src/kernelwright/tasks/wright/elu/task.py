"""ELU with a given alpha."""

import torch
import torch.nn as nn
import torch.nn.functional as F

N = 32
C = 256
L = 2048
ALPHA = 1.5


class Model(nn.Module):
    """x where x > 0, else alpha (exp(x) - 1)."""

    def __init__(self, alpha: float):
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.elu(x, alpha=self.alpha)


def get_inputs():
    return [torch.randn(N, C, L)]


def get_init_inputs():
    return [ALPHA]
