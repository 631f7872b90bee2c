import torch
import torch.nn as nn

M = 4096
N = 4096
K = 4096


class Model(nn.Module):
    """C = A B^T in bfloat16, with B stored as (N, K)."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a, b.T)


def get_inputs():
    return [torch.randn(M, K, dtype=torch.bfloat16), torch.randn(N, K, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
