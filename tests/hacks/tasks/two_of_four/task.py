"""The two of each four that have the largest magnitudes; the others 0."""

import torch
import torch.nn as nn

R = 4096
N = 4096


class Model(nn.Module):
    def forward(self, w):
        g = w.view(-1, 4)
        i = g.abs().topk(2, -1).indices
        return torch.zeros_like(g).scatter(1, i, g.gather(1, i)).view_as(w)


def get_inputs():
    return [torch.randn(R, N)]


def get_init_inputs():
    return []
