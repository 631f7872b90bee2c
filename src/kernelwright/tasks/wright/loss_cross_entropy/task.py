"""Cross-entropy of logits against class indices."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4096
CLASSES = 8192


class Model(nn.Module):
    """mean(logsumexp(logits) - logits[target]), a scalar."""

    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, target)


def get_inputs():
    # the spread is drawn too: otherwise the loss would be the same number for every seed
    spread = 1.0 + 3.0 * torch.rand(1)
    logits = torch.randn(BATCH, CLASSES) * spread
    target = torch.randint(0, CLASSES, (BATCH,))
    return [logits, target]


def get_init_inputs():
    return []
