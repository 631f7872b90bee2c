import torch
import torch.nn as nn

M = 65536
K = 512
N = 48


class Model(nn.Module):
    """Product of a tall matrix (M, K) with a narrow one (K, N)."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
