"""SwiGLU: a SiLU-gated product of two projections, as in Llama's MLP."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 4096
HIDDEN = 5504


class Model(nn.Module):
    """silu(gate) * up, elementwise over two inputs of one shape."""

    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(gate) * up


def get_inputs():
    gate = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)
    up = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16)
    return [gate, up]


def get_init_inputs():
    return []
