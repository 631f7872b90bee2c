"""Products of groups of rows, which offsets divide, with a matrix of each group."""

import torch
import torch.nn as nn

G = 8
T = 1024
K = 512
N = 512


class Model(nn.Module):
    def forward(self, x, w, offsets):
        out = torch.zeros(x.shape[0], w.shape[2], dtype=x.dtype, device=x.device)
        group = torch.searchsorted(offsets, torch.arange(x.shape[0], device=x.device), right=True) - 1
        for g in range(w.shape[0]):
            rows = (group == g)[:, None]
            out = out + torch.where(rows, x, 0.0) @ w[g]
        return out


def get_inputs():
    cuts = torch.sort(torch.randint(0, T + 1, (G - 1,)))[0]
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), cuts, torch.full((1,), T)])
    return [torch.randn(T, K), torch.randn(G, K, N), offsets]


def get_init_inputs():
    return []
