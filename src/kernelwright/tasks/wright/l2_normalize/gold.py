"""L2 normalisation of short rows: eight rows per program, reduced along the tile's second axis."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def l2norm_kernel(x_ptr, y_ptr, M, N, eps, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    keep = (r[:, None] < M) & (c[None, :] < N)
    where = r[:, None].to(tl.int64) * N + c[None, :]
    x = tl.load(x_ptr + where, mask=keep, other=0.0)
    norm = tl.sqrt(tl.sum(x * x, axis=1))
    y = x / tl.maximum(norm, eps)[:, None]
    tl.store(y_ptr + where, y, mask=keep)


class ModelNew(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        M, N = x.shape
        y = torch.empty_like(x)
        BM = 8
        BN = triton.next_power_of_2(N)
        l2norm_kernel[(triton.cdiv(M, BM),)](x, y, M, N, 1e-12, BM=BM, BN=BN, num_warps=4)
        return y
