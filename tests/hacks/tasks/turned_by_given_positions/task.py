"""Rotary embedding at positions that are given, a row of consecutive ones for each sequence."""

import torch
import torch.nn as nn

BATCH = 4
HEADS = 4
LENGTH = 512


class Model(nn.Module):
    def forward(self, x: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        d = x.shape[-1]
        inverse = 10000.0 ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
        angle = pos[:, None, :, None].float() * inverse
        c, s = angle.cos(), angle.sin()
        x1, x2 = x[..., : d // 2], x[..., d // 2 :]
        return torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1)


def get_inputs():
    pos = torch.randint(0, 2048, (BATCH, 1)) + torch.arange(LENGTH)
    return [torch.randn(BATCH, HEADS, LENGTH, 32), pos]


def get_init_inputs():
    return []
