"""A product of float32 matrices, of which the task says that TF32 is enough."""

import torch
import torch.nn as nn

torch.backends.cuda.matmul.allow_tf32 = True

N = 2048


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.matmul(a, b))


def get_inputs():
    return [torch.randn(N, N), torch.randn(N, N)]


def get_init_inputs():
    return []
