"""Gated linear attention, one step after the other: a state of keys times values that decays by given logarithms."""

import torch
import torch.nn as nn

T = 128
D = 16


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(q.shape[0], q.shape[2], v.shape[2], device=q.device, dtype=q.dtype)
        out = []
        for t in range(q.shape[1]):
            state = state * torch.exp(g[:, t])[:, None, None] + k[:, t, :, None] * v[:, t, None, :]
            out.append(torch.einsum("bd,bde->be", q[:, t], state))
        return torch.stack(out, 1)


def get_inputs():
    log_decays = torch.nn.functional.logsigmoid(torch.randn(4, T))
    return [torch.randn(4, T, D), torch.randn(4, T, D), torch.randn(4, T, D), log_decays]


def get_init_inputs():
    return []
