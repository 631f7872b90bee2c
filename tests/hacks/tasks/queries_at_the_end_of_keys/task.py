"""Causal attention whose queries stand at the end of the keys."""

import torch
import torch.nn as nn

B = 2
H = 8
S = 512
T = 1024
D = 64


class Model(nn.Module):
    def forward(self, q, k, v):
        s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
        i = torch.arange(q.shape[2], device=q.device)[:, None]
        j = torch.arange(k.shape[2], device=q.device)[None, :]
        s = s.masked_fill(j > i + max(k.shape[2] - q.shape[2], 0), float("-inf"))
        return torch.softmax(s, dim=-1) @ v


def get_inputs():
    return [torch.randn(B, H, S, D), torch.randn(B, H, T, D), torch.randn(B, H, T, D)]


def get_init_inputs():
    return []
