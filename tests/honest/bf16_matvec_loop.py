# task: wright/matvec
# precision: bf16
# expect: correct
# why: a plain loop over the columns of a few rows, summed in float32
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matvec_kernel(a_ptr, x_ptr, y_ptr, m, k, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    acc = tl.zeros((ROWS,), tl.float32)
    for start in range(0, k, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * k + ks[None, :], mask=(rows[:, None] < m) & (ks[None, :] < k), other=0.0)
        x = tl.load(x_ptr + ks, mask=ks < k, other=0.0)
        acc += tl.sum(a.to(tl.float32) * x.to(tl.float32)[None, :], axis=1)
    tl.store(y_ptr + rows, acc.to(tl.bfloat16), mask=rows < m)


class ModelNew(nn.Module):
    def forward(self, a, x):
        m, k = a.shape
        y = torch.empty(m, device=a.device, dtype=torch.bfloat16)
        matvec_kernel[(triton.cdiv(m, 8),)](a, x, y, m, k, ROWS=8, BLOCK=128)
        return y
