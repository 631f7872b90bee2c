"""Sum of weights that halve with each hour since an event."""

import torch
import torch.nn as nn

B = 2048
T = 512


class Model(nn.Module):
    def forward(self, now: torch.Tensor, times: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        age = (now.unsqueeze(1) - times).to(weights.dtype)
        return (weights * torch.exp2(-age / 3600.0)).sum(-1)


def get_inputs():
    return [torch.randint(90000, 100000, (B,)), torch.randint(0, 86400, (B, T)), torch.randn(B, T)]


def get_init_inputs():
    return []
