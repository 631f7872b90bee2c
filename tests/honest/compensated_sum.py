# task: wright/sum_columns
# expect: correct
# why: Kahan's summation, whose correction looks like a term that cancels
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    lost = tl.zeros([BLOCK], tl.float32)
    for r in range(rows):
        y = tl.load(x_ptr + r * cols + c, mask=c < cols, other=0.0) - lost
        t = total + y
        lost = (t - total) - y
        total = t
    tl.store(out_ptr + c, total, mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(cols, 64),)](x, out, rows, cols, BLOCK=64)
        return out
