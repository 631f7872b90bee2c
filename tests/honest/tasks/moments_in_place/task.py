"""Running mean and mean square of gradients, brought up to date in place, and their quotient."""

import torch
import torch.nn as nn


N = 4194304


class Model(nn.Module):
    def forward(self, grad: torch.Tensor, mean: torch.Tensor, square: torch.Tensor) -> torch.Tensor:
        mean.mul_(0.9).add_(grad, alpha=1 - 0.9)
        square.mul_(0.999).addcmul_(grad, grad, value=1 - 0.999)
        return mean / (square.sqrt() + 1e-6)


def get_inputs():
    return [torch.randn(N), torch.randn(N) * 0.1, torch.rand(N)]


def get_init_inputs():
    return []
