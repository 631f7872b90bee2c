"""Features of the node that an edge begins at, times a weight of the edge; edges lie in order of their nodes."""

import torch
import torch.nn as nn

NODES = 256
EDGES = 65536
FEATURES = 128


class Model(nn.Module):
    def forward(self, x: torch.Tensor, end: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        edge = torch.arange(weight.shape[0], device=x.device)
        node = torch.searchsorted(end, edge, right=True)
        return x[node] * weight[:, None]


def get_inputs():
    end = torch.randint(0, EDGES + 1, (NODES,)).sort().values
    end[-1] = EDGES
    return [torch.randn(NODES, FEATURES), end, torch.rand(EDGES)]


def get_init_inputs():
    return []
