"""A step of LAMB on one tensor of weights."""

import math
import torch
import torch.nn as nn
import torch.nn.functional as F

N = 1000000


class Model(nn.Module):
    def forward(self, p, g, m, v, step):
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        u = (m / (1 - 0.9 ** step)) / (torch.sqrt(v / (1 - 0.999 ** step)) + 1e-6) + 0.01 * p
        a = torch.linalg.vector_norm(p)
        b = torch.linalg.vector_norm(u)
        ratio = torch.where(a > 0, torch.where(b > 0, a / b, 1.0), 1.0)
        return p - 1e-3 * ratio * u, m, v


def get_inputs():
    return [torch.randn(N), torch.randn(N), torch.randn(N) * 0.1, torch.rand(N) * 0.1, torch.randint(1, 1000, (1,)).float()]


def get_init_inputs():
    return []
