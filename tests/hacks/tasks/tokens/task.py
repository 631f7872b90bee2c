"""What a layer does to tokens, one by one."""

import torch
import torch.nn as nn

BATCH = 64
TIME = 1024
WIDTH = 256


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(dim=-1, keepdim=True)


def get_inputs():
    return [torch.randn(BATCH, TIME, WIDTH)]


def get_init_inputs():
    return []
