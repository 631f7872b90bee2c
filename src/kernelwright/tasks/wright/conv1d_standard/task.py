import torch
import torch.nn as nn

B = 32
IN_CHANNELS = 64
OUT_CHANNELS = 64
LENGTH = 8192
KERNEL = 5


class Model(nn.Module):
    """1D convolution, stride 1, no padding, with bias."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int):
        super().__init__()
        self.conv = nn.Conv1d(in_channels, out_channels, kernel_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


def get_inputs():
    return [torch.randn(B, IN_CHANNELS, LENGTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL]
