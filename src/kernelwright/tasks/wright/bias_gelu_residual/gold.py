"""Bias + GELU + residual over a 2-D tile: the tile's slice of the bias is read once for all its rows."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_erf(x):
    # 1 / sqrt(2) = 0.70710678
    return 0.5 * x * (1.0 + tl.erf(x * 0.7071067811865476))


@triton.autotune(
    configs=[
        triton.Config({"BLOCK_M": 4, "BLOCK_N": 256}, num_warps=4),
        triton.Config({"BLOCK_M": 8, "BLOCK_N": 256}, num_warps=4),
        triton.Config({"BLOCK_M": 2, "BLOCK_N": 1024}, num_warps=8),
    ],
    key=["M", "N"],
)
@triton.jit
def bias_gelu_residual_kernel(
    x_ptr, bias_ptr, residual_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    offsets = rows.to(tl.int64)[:, None] * N + cols[None, :]

    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
    residual = tl.load(residual_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    out = gelu_erf(x + bias[None, :]) + residual
    tl.store(out_ptr + offsets, out.to(tl.float16), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(dim, dtype=torch.float16))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        out = torch.empty_like(x)

        def grid(meta):
            return (triton.cdiv(M, meta["BLOCK_M"]), triton.cdiv(N, meta["BLOCK_N"]))

        bias_gelu_residual_kernel[grid](x, self.bias, residual, out, M, N)
        return out
