import torch
import torch.nn as nn

B = 4096
N = 8192


class Model(nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        x = torch.relu(x)
        x = torch.square(x)
        return x


def get_inputs():
    return [torch.randn(B, N)]


def get_init_inputs():
    return []
