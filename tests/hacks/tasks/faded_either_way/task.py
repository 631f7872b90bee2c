"""Rows that fade forwards or backwards, which is drawn with them and given as a truth value."""

import torch
import torch.nn as nn

BATCH = 16
LENGTH = 1024
WIDTH = 256


class Model(nn.Module):
    def forward(self, x: torch.Tensor, backwards: bool) -> torch.Tensor:
        at = torch.arange(x.shape[1], device=x.device, dtype=torch.float32) / x.shape[1]
        at = 1.0 - at if backwards else at
        return x * torch.exp(-at)[:, None]


def get_inputs():
    backwards = bool(torch.rand(()) < 0.5)
    return [torch.randn(BATCH, LENGTH, WIDTH), backwards]


def get_init_inputs():
    return []
