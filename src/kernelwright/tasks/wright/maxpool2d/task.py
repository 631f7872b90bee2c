"""2-D max pooling with overlap and padding, as in a ResNet stem."""

import torch
import torch.nn as nn

N = 16
C = 64
H = 160
W = 160
KERNEL = 3
STRIDE = 2
PADDING = 1


class Model(nn.Module):
    """Largest value of each window; the padding never wins."""

    def __init__(self, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(N, C, H, W)]


def get_init_inputs():
    return [KERNEL, STRIDE, PADDING]
