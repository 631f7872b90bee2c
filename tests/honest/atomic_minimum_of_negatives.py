# task: wright/max_rows
# expect: correct
# why: maxima by atomic_min on negated values over two column halves
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def lowest(x_ptr, key_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n_cols + c, mask=c < n_cols, other=float("-inf"))
    best = tl.max(x, axis=0)
    bits = best.to(tl.int32, bitcast=True)
    # floats in the order of integers, largest first
    key = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    tl.atomic_min(key_ptr + row, -1 - key)


@triton.jit
def decode(key_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    key = -1 - tl.load(key_ptr + i, mask=i < n, other=0)
    bits = tl.where(key < 0, key ^ 0x7FFFFFFF, key)
    tl.store(out_ptr + i, bits.to(tl.float32, bitcast=True), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        keys = torch.full((rows,), 2**31 - 1, device=x.device, dtype=torch.int32)
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        lowest[(rows, triton.cdiv(cols, 256))](x, keys, cols, BLOCK=256)
        decode[(triton.cdiv(rows, 64),)](keys, out, rows, BLOCK=64)
        return out
