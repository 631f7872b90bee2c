"""How many different numbers each sorted row has."""

import torch
import torch.nn as nn

R = 512
N = 512


class Model(nn.Module):
    def forward(self, x):
        seen = ((x[:, :, None] == x[:, None, :]) & torch.ones_like(x[:1, :1]).bool()).int()
        return (seen.argmax(2) == torch.arange(x.shape[1], device=x.device)).sum(1)


def get_inputs():
    return [torch.randint(0, 1000, (R, N)).sort(1).values]


def get_init_inputs():
    return []
