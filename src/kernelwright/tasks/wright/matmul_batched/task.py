import torch
import torch.nn as nn

B = 64
M = 512
K = 512
N = 512


class Model(nn.Module):
    """Batched matrix product in half precision: (B, M, K) x (B, K, N) -> (B, M, N)."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs():
    a = torch.randn(B, M, K, dtype=torch.float16)
    b = torch.randn(B, K, N, dtype=torch.float16)
    return [a, b]


def get_init_inputs():
    return []
