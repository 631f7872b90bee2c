"""Mean over the middle dimension: mean pooling of token embeddings."""

import torch
import torch.nn as nn

BATCH = 32
SEQ = 1024
DIM = 1024


class Model(nn.Module):
    """(BATCH, SEQ, DIM) -> (BATCH, DIM)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mean(x, dim=1)


def get_inputs():
    # an offset per (batch, channel): a mean of pure noise would be nearly zero
    return [torch.randn(BATCH, SEQ, DIM) + torch.randn(BATCH, 1, DIM)]


def get_init_inputs():
    return []
