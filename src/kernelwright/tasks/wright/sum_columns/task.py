"""Sum over the rows of a tall matrix, as in a bias gradient."""

import torch
import torch.nn as nn

ROWS = 32768
COLS = 1024


class Model(nn.Module):
    """(ROWS, COLS) -> (COLS,), the sum over dimension 0."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=0)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
