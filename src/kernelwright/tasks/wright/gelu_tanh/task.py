"""GELU in its tanh approximation."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 2048
FEATURES = 8192


class Model(nn.Module):
    """0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), elementwise."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x, approximate="tanh")


def get_inputs():
    return [torch.randn(BATCH, FEATURES)]


def get_init_inputs():
    return []
