# task: wright/sum_columns
# expect: correct
# why: a workspace of partial sums from torch.empty, then a second kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def partial_kernel(x_ptr, part_ptr, rows, cols, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    chunk = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for step in range(CHUNK):
        row = chunk * CHUNK + step
        total += tl.load(x_ptr + row * cols + at, mask=(at < cols) & (row < rows), other=0.0)
    tl.store(part_ptr + chunk * cols + at, total, mask=at < cols)


@triton.jit
def total_kernel(part_ptr, out_ptr, chunks, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for chunk in range(chunks):
        total += tl.load(part_ptr + chunk * cols + at, mask=at < cols, other=0.0)
    tl.store(out_ptr + at, total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        chunks = triton.cdiv(rows, 16)
        parts = torch.empty((chunks, cols), device=x.device, dtype=torch.float32)
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        partial_kernel[(chunks, triton.cdiv(cols, 64))](x, parts, rows, cols, CHUNK=16, BLOCK=64)
        total_kernel[(triton.cdiv(cols, 64),)](parts, out, chunks, cols, BLOCK=64)
        return out
