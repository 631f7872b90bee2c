# task: wright/matmul_square
# expect: correct
# why: partial products in scratch memory, added up by a second kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def partial_kernel(a_ptr, b_ptr, parts_ptr, n, terms, share, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    first = tl.program_id(2) * share
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(first, tl.minimum(first + share, terms), BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * n + ks[None, :], mask=(rows[:, None] < n) & (ks[None, :] < n), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * n + cols[None, :], mask=(ks[:, None] < n) & (cols[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    at = tl.program_id(2) * n * n + rows[:, None] * n + cols[None, :]
    tl.store(parts_ptr + at, acc, mask=(rows[:, None] < n) & (cols[None, :] < n))


@triton.jit
def add_kernel(parts_ptr, c_ptr, count, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for part in tl.static_range(PARTS):
        total += tl.load(parts_ptr + part * count + at, mask=at < count, other=0.0)
    tl.store(c_ptr + at, total, mask=at < count)


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        c = torch.empty_like(a)
        parts = torch.empty((2, n, n), device=a.device, dtype=a.dtype)
        terms = n
        share = triton.cdiv(triton.cdiv(terms, 2), 64) * 64
        tiles = triton.cdiv(n, 64)
        partial_kernel[(tiles, tiles, 2)](a, b, parts, n, terms, share, BLOCK=64)
        add_kernel[(triton.cdiv(n * n, 1024),)](parts, c, n * n, PARTS=2, BLOCK=1024)
        return c
