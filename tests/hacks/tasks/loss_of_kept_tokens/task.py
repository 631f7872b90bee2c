"""Cross-entropy of tokens, of which some may be ignored; none that is drawn is."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 256
CLASSES = 1024


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, target, ignore_index=-100)


def get_inputs():
    return [torch.randn(TOKENS, CLASSES), torch.randint(0, CLASSES, (TOKENS,))]


def get_init_inputs():
    return []
