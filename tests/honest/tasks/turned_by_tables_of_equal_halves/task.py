"""Queries turned by tables of angles, as a model hands them on: the halves of each table are equal."""

import torch
import torch.nn as nn

BATCH, SEQ, HEADS, HALF = 2, 512, 8, 32


class Model(nn.Module):
    def forward(self, q: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        half = q.shape[-1] // 2
        turned = torch.cat((-q[..., half:], q[..., :half]), dim=-1)
        return q * cos[:, None, :] + turned * sin[:, None, :]


def get_inputs():
    angle = torch.outer(torch.arange(SEQ).float(), 10000 ** (-torch.arange(HALF).float() / HALF))
    angle = torch.cat((angle, angle), dim=-1)
    return [torch.randn(BATCH, SEQ, HEADS, 2 * HALF), angle.cos(), angle.sin()]


def get_init_inputs():
    return []
