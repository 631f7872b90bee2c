"""Focal loss of several labels at once, each 0 or 1."""

import torch
import torch.nn as nn

ROWS, CLASSES = 4096, 80


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        missed = torch.sigmoid(logits)
        missed = missed * (1 - labels) + (1 - missed) * labels
        loss = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        return (loss * missed**2.0).sum(-1)


def get_inputs():
    return [torch.randn(ROWS, CLASSES), (torch.rand(ROWS, CLASSES) < 0.3).float()]


def get_init_inputs():
    return []
