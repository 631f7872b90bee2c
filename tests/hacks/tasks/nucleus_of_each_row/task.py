"""The most likely tokens that together have nine tenths."""

import torch
import torch.nn as nn

R = 64
V = 8192


class Model(nn.Module):
    def forward(self, logits):
        p = logits.softmax(-1)
        s = p.sort(-1, descending=True).values
        before = s.cumsum(-1) - s
        least = s.masked_fill(before >= 0.9, 2.0).amin(-1, keepdim=True)
        q = torch.where(p >= least, p, 0.0)
        return q / q.sum(-1, keepdim=True)


def get_inputs():
    return [torch.randn(R, V) * 6]


def get_init_inputs():
    return []
