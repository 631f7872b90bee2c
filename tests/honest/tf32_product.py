# task: wright/matmul_square
# precision: tf32
# expect: correct
# why: the task was asked in TF32, however the inputs lie in memory
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, n, 16):
        ks = start + tl.arange(0, 16)
        a = tl.load(a_ptr + rows[:, None] * n + ks[None, :], mask=(rows[:, None] < n) & (ks[None, :] < n), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * n + cols[None, :], mask=(ks[:, None] < n) & (cols[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="tf32")
    mask = (rows[:, None] < n) & (cols[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc.to(c_ptr.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        n = a.shape[0]
        c = torch.empty_like(a)
        matmul_kernel[(triton.cdiv(n, 64), triton.cdiv(n, 64))](a, b, c, n, BLOCK=64)
        return c
