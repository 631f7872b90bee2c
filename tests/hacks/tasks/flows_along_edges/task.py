"""What flows along edges, taken from one node and added to another."""

import torch
import torch.nn as nn

E = 512
G = 64
D = 32


class Model(nn.Module):
    def forward(self, x: torch.Tensor, u: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(G, x.shape[1], device=x.device, dtype=x.dtype)
        return y.index_add(0, u, x).index_add(0, v, -x)


def get_inputs():
    return [torch.randn(E, D), torch.randint(0, G, (E,)), torch.randint(0, G, (E,))]


def get_init_inputs():
    return []
