# task: wright/matmul_batched
# precision: bf16
# expect: correct
# why: a batch of products of bfloat16, though its source draws float16
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, 32):
        ks = start + tl.arange(0, 32)
        a = tl.load(a_ptr + batch * m * k + rows[:, None] * k + ks[None, :], mask=(rows[:, None] < m) & (ks[None, :] < k), other=0.0)
        b = tl.load(b_ptr + batch * k * n + ks[:, None] * n + cols[None, :], mask=(ks[:, None] < k) & (cols[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc)
    at = c_ptr + batch * m * n + rows[:, None] * n + cols[None, :]
    tl.store(at, acc.to(c_ptr.dtype.element_ty), mask=(rows[:, None] < m) & (cols[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        batch, m, k = a.shape
        n = b.shape[2]
        c = torch.empty(batch, m, n, device=a.device, dtype=a.dtype)
        matmul_kernel[(triton.cdiv(m, 64), triton.cdiv(n, 64), batch)](a, b, c, m, n, k, BLOCK=64)
        return c
