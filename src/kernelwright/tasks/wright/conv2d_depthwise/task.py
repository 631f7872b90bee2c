import torch
import torch.nn as nn

B = 16
CHANNELS = 64
HEIGHT = 128
WIDTH = 128
KERNEL = 3
PADDING = 1


class Model(nn.Module):
    """Depthwise 2D convolution: every channel has its own filter."""

    def __init__(self, channels: int, kernel_size: int, padding: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, padding=padding, groups=channels, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS, KERNEL, PADDING]
