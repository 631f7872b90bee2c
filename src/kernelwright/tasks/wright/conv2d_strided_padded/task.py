import torch
import torch.nn as nn

B = 16
IN_CHANNELS = 32
OUT_CHANNELS = 64
HEIGHT = 192
WIDTH = 192
KERNEL = 5
STRIDE = 2
PADDING = 2


class Model(nn.Module):
    """2D convolution with stride, zero padding and bias."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, IN_CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL, STRIDE, PADDING]
