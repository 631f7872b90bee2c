# task: wright/matvec
# expect: correct
# why: each program reduces a few rows against the vector
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, x_ptr, y_ptr, m, k, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, k, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * k + ks[None, :], mask=(rows[:, None] < m) & (ks[None, :] < k), other=0.0)
        acc += a * tl.load(x_ptr + ks, mask=ks < k, other=0.0)[None, :]
    tl.store(y_ptr + rows, tl.sum(acc, axis=1), mask=rows < m)


class ModelNew(nn.Module):
    def forward(self, a, x):
        m, k = a.shape
        y = torch.empty(m, device=a.device, dtype=a.dtype)
        kernel[(triton.cdiv(m, 4),)](a, x, y, m, k, ROWS=4, BLOCK=256)
        return y
