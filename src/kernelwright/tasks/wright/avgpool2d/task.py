"""2-D average pooling; the zeros of the padding count as elements."""

import torch
import torch.nn as nn

N = 16
C = 32
H = 224
W = 224
KERNEL = 3
STRIDE = 2
PADDING = 1


class Model(nn.Module):
    """Sum of each window over KERNEL^2."""

    def __init__(self, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.AvgPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(N, C, H, W)]


def get_init_inputs():
    return [KERNEL, STRIDE, PADDING]
