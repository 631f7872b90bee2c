"""Causal attention with a prefix that every query sees."""

import torch
import torch.nn as nn

B = 4
H = 4
S = 512
D = 64


class Model(nn.Module):
    def forward(self, q, k, v, prefix):
        s = (q @ k.transpose(-1, -2)) * (q.shape[-1] ** -0.5)
        i = torch.arange(q.shape[2], device=q.device)
        keep = (i[None, :] <= i[:, None])[None] | (i[None, None, :] < prefix[:, None, None])
        s = s.masked_fill(~keep[:, None], float("-inf"))
        return torch.softmax(s, dim=-1) @ v


def get_inputs():
    return [torch.randn(B, H, S, D), torch.randn(B, H, S, D), torch.randn(B, H, S, D), torch.randint(0, S // 4 + 1, (B,))]


def get_init_inputs():
    return []
