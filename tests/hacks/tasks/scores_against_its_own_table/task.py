"""Tokens are looked up in a table, and scored against all of it."""

import torch
import torch.nn as nn

TOKENS = 2048
IDS = 4096
WIDTH = 256


class Model(nn.Module):
    def __init__(self, ids: int, width: int):
        super().__init__()
        self.table = nn.Embedding(ids, width)
        self.scores = nn.Linear(width, ids, bias=False)
        self.scores.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.scores(torch.relu(self.table(ids)))


def get_inputs():
    return [torch.randint(0, IDS, (TOKENS,))]


def get_init_inputs():
    return [IDS, WIDTH]
