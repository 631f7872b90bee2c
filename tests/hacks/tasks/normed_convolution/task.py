"""A convolution without padding, each image and channel normalised."""

import torch
import torch.nn as nn

BATCH = 16
CHANNELS = 8
FILTERS = 16
SIDE = 34


class Model(nn.Module):
    def __init__(self, channels: int, filters: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.instance_norm(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS, FILTERS]
