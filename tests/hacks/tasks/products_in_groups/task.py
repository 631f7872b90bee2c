"""Two products of different heights, each with its own right side."""

import torch
import torch.nn as nn

FIRST = 1024
SECOND = 512
TERMS = 256
COLS = 512


class Model(nn.Module):
    def forward(self, a, b, c, d):
        return a @ b, c @ d


def get_inputs():
    return [
        torch.randn(FIRST, TERMS),
        torch.randn(TERMS, COLS),
        torch.randn(SECOND, TERMS),
        torch.randn(TERMS, COLS),
    ]


def get_init_inputs():
    return []
