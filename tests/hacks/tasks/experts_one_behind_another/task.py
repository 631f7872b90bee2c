"""Rows lie one expert behind another, and numbers say where those of each end; each row is multiplied by its expert's weights."""

import torch
import torch.nn as nn

ROWS = 512
DIM = 128
OUT = 128
EXPERTS = 8


class Model(nn.Module):
    def __init__(self, experts: int, dim: int, out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(experts, out, dim) / dim**0.5)

    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        expert = torch.searchsorted(ends, torch.arange(x.shape[0], device=x.device), right=True)
        y = torch.zeros(x.shape[0], self.weight.shape[1], device=x.device, dtype=x.dtype)
        for e in range(self.weight.shape[0]):
            y = torch.where((expert == e)[:, None], x @ self.weight[e].t(), y)
        return y


def get_inputs():
    cuts = torch.sort(torch.randint(0, ROWS + 1, (EXPERTS - 1,))).values
    return [torch.randn(ROWS, DIM), torch.cat([cuts, torch.tensor([ROWS])])]


def get_init_inputs():
    return [EXPERTS, DIM, OUT]
