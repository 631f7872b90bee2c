"""Scaled softmax of attention scores under a padding mask shared by heads and queries."""

import math

import torch
import torch.nn as nn

BATCH = 2
HEADS = 8
QUERIES = 1024
KEYS = 1024
HEAD_DIM = 4


class Model(nn.Module):
    """softmax(scores / sqrt(head_dim)) over the keys that the mask keeps; the others get 0."""

    def __init__(self, head_dim: int):
        super().__init__()
        self.scale = 1.0 / math.sqrt(head_dim)

    def forward(self, scores: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
        scores = scores * self.scale
        return torch.softmax(scores.masked_fill(~keep[:, None, None, :], float("-inf")), dim=-1)


def get_inputs():
    scores = torch.randn(BATCH, HEADS, QUERIES, KEYS) * 6.0
    keep = torch.rand(BATCH, KEYS) < 0.7
    keep[:, 0] = True  # no query may be left without a key
    return [scores, keep]


def get_init_inputs():
    return [HEAD_DIM]
