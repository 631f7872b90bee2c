"""Fused residual add and RMSNorm: the sum stays in registers, is written once and normalised from there."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def residual_rmsnorm_kernel(
    x_ptr,
    residual_ptr,
    weight_ptr,
    normed_ptr,
    hidden_ptr,
    dim,
    eps,
    BLOCK: tl.constexpr,
):
    row_start = tl.program_id(0).to(tl.int64) * dim
    cols = tl.arange(0, BLOCK)
    mask = cols < dim
    at = row_start + cols

    hidden = tl.load(x_ptr + at, mask=mask, other=0.0) + tl.load(residual_ptr + at, mask=mask, other=0.0)
    tl.store(hidden_ptr + at, hidden, mask=mask)

    rms = tl.sqrt(tl.sum(hidden * hidden, axis=0) / dim + eps)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    tl.store(normed_ptr + at, hidden / rms * weight, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, dim = x.shape
        normed = torch.empty_like(x)
        hidden = torch.empty_like(x)
        residual_rmsnorm_kernel[(tokens,)](
            x,
            residual,
            self.weight,
            normed,
            hidden,
            dim,
            self.eps,
            BLOCK=triton.next_power_of_2(dim),
            num_warps=8,
        )
        return normed, hidden
