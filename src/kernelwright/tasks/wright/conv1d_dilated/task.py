import torch
import torch.nn as nn

B = 32
IN_CHANNELS = 64
OUT_CHANNELS = 128
LENGTH = 6144
KERNEL = 3
DILATION = 4


class Model(nn.Module):
    """Causal dilated 1D convolution (as in WaveNet): the output at t sees only inputs up to t."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, dilation: int):
        super().__init__()
        self.conv = nn.Conv1d(
            in_channels,
            out_channels,
            kernel_size,
            dilation=dilation,
            padding=dilation * (kernel_size - 1),
            bias=False,
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)[:, :, : x.shape[2]]


def get_inputs():
    return [torch.randn(B, IN_CHANNELS, LENGTH)]


def get_init_inputs():
    return [IN_CHANNELS, OUT_CHANNELS, KERNEL, DILATION]
