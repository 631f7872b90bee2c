"""Two gates that begin as copies, as the layers of a deep copy do."""

import torch
import torch.nn as nn

ROWS = 8192
COLS = 1024


class Model(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        first = torch.randn(dim)
        self.gates = nn.ParameterList([nn.Parameter(first.clone()) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x * self.gates[0]) * self.gates[1]


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
