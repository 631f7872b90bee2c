"""The real and the imaginary part of a product of complex matrices."""

import torch
import torch.nn as nn

M = 512
N = 512
K = 256


class Model(nn.Module):
    def forward(
        self, ar: torch.Tensor, ai: torch.Tensor, br: torch.Tensor, bi: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return ar @ br - ai @ bi, ar @ bi + ai @ br


def get_inputs():
    return [torch.randn(M, K), torch.randn(M, K), torch.randn(K, N), torch.randn(K, N)]


def get_init_inputs():
    return []
