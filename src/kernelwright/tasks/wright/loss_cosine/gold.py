"""Cosine loss. Stage one: dot product and both norms of eight pairs per program. Stage two: the mean."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def pair_distance_kernel(a_ptr, b_ptr, dist_ptr, batch, dim, eps, ROWS: tl.constexpr, BLOCK_D: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    row_ok = rows < batch
    row_start = rows.to(tl.int64)[:, None] * dim

    ab = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    aa = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    bb = tl.zeros([ROWS, BLOCK_D], dtype=tl.float32)
    for d0 in range(0, dim, BLOCK_D):
        d = d0 + tl.arange(0, BLOCK_D)
        mask = row_ok[:, None] & (d < dim)[None, :]
        a = tl.load(a_ptr + row_start + d[None, :], mask=mask, other=0.0)
        b = tl.load(b_ptr + row_start + d[None, :], mask=mask, other=0.0)
        ab += a * b
        aa += a * a
        bb += b * b

    norm_a = tl.maximum(tl.sqrt(tl.sum(aa, axis=1)), eps)
    norm_b = tl.maximum(tl.sqrt(tl.sum(bb, axis=1)), eps)
    tl.store(dist_ptr + rows, 1.0 - tl.sum(ab, axis=1) / (norm_a * norm_b), mask=row_ok)


@triton.jit
def mean_kernel(src, dst, n, BLOCK: tl.constexpr):
    acc = tl.zeros([BLOCK], dtype=tl.float32)
    for i in range(0, n, BLOCK):
        idx = i + tl.arange(0, BLOCK)
        acc += tl.load(src + idx, mask=idx < n, other=0.0)
    tl.store(dst, tl.sum(acc, axis=0) / n)


class ModelNew(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        batch, dim = a.shape
        distances = torch.empty((batch,), device=a.device, dtype=torch.float32)
        loss = torch.empty((), device=a.device, dtype=a.dtype)
        rows = 8
        block_d = min(128, triton.next_power_of_2(dim))
        pair_distance_kernel[(triton.cdiv(batch, rows),)](
            a, b, distances, batch, dim, 1e-8, ROWS=rows, BLOCK_D=block_d, num_warps=4
        )
        block = min(2048, max(4, triton.next_power_of_2(batch) // 2))
        mean_kernel[(1,)](distances, loss, batch, BLOCK=block, num_warps=8)
        return loss
