"""Attention with a bias of each pair of places; keys that are padding are left out."""

import torch
import torch.nn as nn

B = 4
H = 8
S = 512
D = 64


class Model(nn.Module):
    def forward(self, q, k, v, bias, keep):
        s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5) + bias
        s = s.masked_fill(~keep[:, None, None, :], float("-inf"))
        return torch.softmax(s, dim=-1) @ v


def get_inputs():
    keep = torch.rand(B, S) > 0.3
    keep[:, 0] = True
    return [torch.randn(B, H, S, D), torch.randn(B, H, S, D), torch.randn(B, H, S, D), torch.randn(H, S, S), keep]


def get_init_inputs():
    return []
