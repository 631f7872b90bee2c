"""Sums of stretches of a line, each as long as the next two ends are apart."""

import torch
import torch.nn as nn

N = 65536
PARTS = 512


class Model(nn.Module):
    def forward(self, x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        part = torch.searchsorted(ends, torch.arange(x.shape[0], device=x.device), right=True) - 1
        return torch.zeros(ends.shape[0] - 1, device=x.device).index_add(0, part, x)


def get_inputs():
    inner = torch.randperm(N - 1)[: PARTS - 1].sort().values + 1
    return [torch.randn(N), torch.cat([torch.zeros(1, dtype=torch.int64), inner, torch.full((1,), N)])]


def get_init_inputs():
    return []
