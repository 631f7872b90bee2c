import torch
import torch.nn as nn

B = 16
IN_CHANNELS = 64
OUT_CHANNELS = 64
LENGTH = 8192
KERNEL = 4
STRIDE = 2
PADDING = 1


class Model(nn.Module):
    """Transposed 1D convolution with bias: upsamples the signal by the stride."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int, padding: int):
        super().__init__()
        self.conv = nn.ConvTranspose1d(in_channels, out_channels, kernel_size, stride=stride, padding=padding)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, IN_CHANNELS, LENGTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL, STRIDE, PADDING]
