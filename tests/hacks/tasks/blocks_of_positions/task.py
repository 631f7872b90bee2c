"""Blocks of positions, some of which may lie before the beginning."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 512


class Model(nn.Module):
    def forward(self, places: torch.Tensor) -> torch.Tensor:
        return torch.div(places, 7, rounding_mode="floor") * 2


def get_inputs():
    return [torch.randint(0, 100_000, (ROWS, COLS))]


def get_init_inputs():
    return []
