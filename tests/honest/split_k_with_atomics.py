# task: wright/matmul_tall_skinny
# expect: correct
# why: partial products are added by atomics into a zeroed output
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, m, n, k, SPLIT: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(tl.program_id(2) * BLOCK, k, SPLIT * BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * k + ks[None, :], mask=(rows[:, None] < m) & (ks[None, :] < k), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * n + cols[None, :], mask=(ks[:, None] < k) & (cols[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.atomic_add(c_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        c = torch.zeros((m, n), device=a.device, dtype=a.dtype)
        kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32), 2)](a, b, c, m, n, k, SPLIT=2, BLOCK=32)
        return c
