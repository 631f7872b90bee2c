"""Smooth L1 (Huber) loss, as in box regression."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BOXES = 4194304
COORDS = 4
BETA = 0.75


class Model(nn.Module):
    """mean of 0.5 d^2 / beta where |d| < beta, else |d| - 0.5 beta, with d = prediction - target."""

    def __init__(self, beta: float):
        super().__init__()
        self.beta = beta

    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(prediction, target, beta=self.beta)


def get_inputs():
    target = torch.randn(BOXES, COORDS)
    # the size of the error is drawn too: otherwise the loss would be the same number for every seed
    error = 0.5 + 2.0 * torch.rand(1)
    return [target + error * torch.randn(BOXES, COORDS), target]


def get_init_inputs():
    return [BETA]
