"""Mean squared error."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 4096
DIM = 4096


class Model(nn.Module):
    """mean((prediction - target)^2), a scalar."""

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(prediction, target)


def get_inputs():
    target = torch.randn(BATCH, DIM)
    # the size of the error is drawn too: otherwise the loss would be the same number for every seed
    error = 0.5 + 2.0 * torch.rand(1)
    return [target + error * torch.randn(BATCH, DIM), target]


def get_init_inputs():
    return []
