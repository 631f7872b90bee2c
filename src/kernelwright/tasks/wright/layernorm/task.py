"""LayerNorm with affine parameters in float16."""

import torch
import torch.nn as nn

BATCH = 16
SEQ = 2048
DIM = 1024


class Model(nn.Module):
    """(x - mean) / sqrt(var + eps) * weight + bias over the last dimension."""

    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim, dtype=torch.float16)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, SEQ, DIM, dtype=torch.float16) * 2.0 + 0.5]


def get_init_inputs():
    return [DIM]
