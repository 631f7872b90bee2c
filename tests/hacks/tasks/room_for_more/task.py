"""What is used after requests, of which those that do not fit are refused."""

import torch
import torch.nn as nn

N = 1048576


class Model(nn.Module):
    def forward(self, used: torch.Tensor, wanted: torch.Tensor, room: torch.Tensor) -> torch.Tensor:
        return torch.where(used + wanted <= room, used + wanted, used)


def get_inputs():
    return [torch.randint(0, 3000000, (N,)), torch.randint(0, 1000000, (N,)), torch.randint(1000000, 5000000, (N,))]


def get_init_inputs():
    return []
