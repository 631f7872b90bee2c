"""Differences of numbers of 24 digits, the lowest first, each of 16 bits."""

import torch
import torch.nn as nn

R = 8192
L = 24


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        digits = []
        borrow = torch.zeros_like(a[:, 0])
        for one, other in zip(a.unbind(1), b.unbind(1)):
            digit = one - other - borrow
            borrow = (digit < 0).to(a.dtype)
            digits.append(digit + borrow * 65536)
        return torch.stack(digits, 1)


def get_inputs():
    return [torch.randint(0, 65536, (R, L)), torch.randint(0, 65536, (R, L))]


def get_init_inputs():
    return []
