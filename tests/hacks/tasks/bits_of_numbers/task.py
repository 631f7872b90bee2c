"""The number of bits of whole numbers."""

import torch
import torch.nn as nn

N = 65536


class Model(nn.Module):
    def forward(self, x):
        powers = 2 ** torch.arange(31, device=x.device)
        return (x[:, None] >= powers).sum(1)


def get_inputs():
    return [torch.randint(1, 2 ** 31 - 1, (N,))]


def get_init_inputs():
    return []
