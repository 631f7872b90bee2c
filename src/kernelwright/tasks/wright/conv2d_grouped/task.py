import torch
import torch.nn as nn

B = 32
CHANNELS = 128
GROUPS = 4
HEIGHT = 64
WIDTH = 64
KERNEL = 3
PADDING = 1


class Model(nn.Module):
    """Grouped 2D convolution (as in ResNeXt): channels are mixed only inside their group."""

    def __init__(self, channels: int, groups: int, kernel_size: int, padding: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size, padding=padding, groups=groups, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS, GROUPS, KERNEL, PADDING]
