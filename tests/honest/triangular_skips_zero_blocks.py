# task: wright/matmul_lower_triangular
# expect: correct
# why: blocks that are zero by construction are not visited
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    pm, pn = tl.program_id(0), tl.program_id(1)
    rows = pm * BLOCK + tl.arange(0, BLOCK)
    cols = pn * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for block in range(pn, pm + 1):
        ks = block * BLOCK + tl.arange(0, BLOCK)
        a_mask = (rows[:, None] < n) & (ks[None, :] <= rows[:, None])
        b_mask = (ks[:, None] < n) & (cols[None, :] <= ks[:, None])
        a = tl.load(a_ptr + rows[:, None] * n + ks[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + ks[:, None] * n + cols[None, :], mask=b_mask, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < n) & (cols[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        c = torch.empty_like(a)
        kernel[(triton.cdiv(n, 32), triton.cdiv(n, 32))](a, b, c, n, BLOCK=32)
        return c
