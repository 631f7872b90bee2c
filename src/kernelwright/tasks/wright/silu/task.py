"""SiLU (swish) of a bfloat16 activation tensor."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
SEQ = 2048
DIM = 2048


class Model(nn.Module):
    """x * sigmoid(x), elementwise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(x)


def get_inputs():
    return [torch.randn(BATCH, SEQ, DIM, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
