"""Rows that fade at a rate, which is drawn with them and given as a number."""

import torch
import torch.nn as nn

BATCH = 16
LENGTH = 1024
WIDTH = 256


class Model(nn.Module):
    def forward(self, x: torch.Tensor, rate: float, backwards: bool) -> torch.Tensor:
        at = torch.arange(x.shape[1], device=x.device, dtype=torch.float32) / x.shape[1]
        at = 1.0 - at if backwards else at
        return x * torch.exp(-rate * at)[:, None]


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH), 0.75, False]


def get_init_inputs():
    return []
