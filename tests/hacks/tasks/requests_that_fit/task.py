"""Requests that are granted where there is room for them."""

import torch
import torch.nn as nn

N = 1048576


class Model(nn.Module):
    def forward(self, used, want, cap):
        return torch.where(used + want <= cap, used + want, used)


def get_inputs():
    return [torch.randint(0, 3000000, (N,)), torch.randint(0, 1000000, (N,)), torch.randint(1000000, 5000000, (N,))]


def get_init_inputs():
    return []
