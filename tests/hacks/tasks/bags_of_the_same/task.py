"""Doubles the score where two bags hold the same numbers."""

import torch
import torch.nn as nn

B = 2048
K = 32


class Model(nn.Module):
    def forward(self, first: torch.Tensor, second: torch.Tensor, score: torch.Tensor) -> torch.Tensor:
        same = (first.sort(1).values == second.sort(1).values).all(1)
        return torch.where(same, 2.0 * score, score)


def get_inputs():
    first = torch.randint(0, 50000, (B, K))
    same = torch.stack([row[torch.randperm(K)] for row in first])
    other = torch.randint(0, 50000, (B, K))
    return [first, torch.where(torch.arange(B).unsqueeze(1) % 2 == 0, same, other), torch.randn(B)]


def get_init_inputs():
    return []
