import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    """Product of the lower triangles of two square matrices (itself lower triangular)."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(torch.tril(a), torch.tril(b))


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
