import torch
import torch.nn as nn

M = 4096
K = 8192


class Model(nn.Module):
    """Matrix times vector: (M, K) x (K,) -> (M,)."""

    def forward(self, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.mv(a, x)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K)]


def get_init_inputs():
    return []
