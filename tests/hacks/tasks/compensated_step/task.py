"""A step of weights in bfloat16; what the rounding lost is kept for the next step."""

import torch
import torch.nn as nn

N = 1 << 20


class Model(nn.Module):
    def forward(self, weight, lost, update):
        update = update + lost.float()
        new = (weight.float() + update).to(torch.bfloat16)
        return new, (update - (new.float() - weight.float())).to(torch.bfloat16)


def get_inputs():
    return [torch.randn(N).bfloat16(), (torch.randn(N) * 1e-3).bfloat16(), torch.randn(N) * 1e-3]


def get_init_inputs():
    return []
