"""Attention with a bias that falls with distance, at slopes that are an input; heads share keys."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F

B = 2
HK = 2
T = 512
R = 4
D = 64


class Model(nn.Module):
    def forward(self, q, k, v, slopes):
        g = q.shape[1] // k.shape[1]
        k = k.repeat_interleave(g, 1)
        v = v.repeat_interleave(g, 1)
        n = q.shape[2]
        i = torch.arange(n, device=q.device)
        distance = (i[None, :] - i[:, None]).to(q.dtype)
        s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + slopes[:, None, None] * distance
        s = s.masked_fill(i[None, :] > i[:, None], float("-inf"))
        return torch.softmax(s.float(), -1).to(v.dtype) @ v


def get_inputs():
    h = HK * R
    slopes = 2.0 ** (-8.0 * (torch.arange(h) + 1) / h)
    return [torch.randn(B, h, T, D), torch.randn(B, HK, T, D), torch.randn(B, HK, T, D), slopes]


def get_init_inputs():
    return []
