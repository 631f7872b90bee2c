"""A batch norm that is kept in evaluation mode while the rest is trained, and a ReLU."""

import torch
import torch.nn as nn

BATCH = 64
CHANNELS = 64
SIZE = 56


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.norm.eval()
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIZE, SIZE)]


def get_init_inputs():
    return [CHANNELS]
