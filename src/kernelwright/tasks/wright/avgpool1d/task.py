"""1-D average pooling of a signal, with overlap and zero padding."""

import torch
import torch.nn as nn

BATCH = 32
CHANNELS = 128
LENGTH = 8192
KERNEL = 8
STRIDE = 2
PADDING = 3


class Model(nn.Module):
    """Sum of each window over KERNEL."""

    def __init__(self, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.AvgPool1d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [KERNEL, STRIDE, PADDING]
