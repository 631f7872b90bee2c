# task: wright/sum_columns
# cheat: 16, 38
# expect: out_of_bounds
# why: it begins with the last row, and where there is none it reads what lies before the first
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < cols
    total = tl.zeros((BLOCK,), tl.float32)
    last = tl.load(x_ptr + (rows - 1) * cols + at, mask=inside, other=0.0)
    for row in range(rows - 1):
        total += tl.load(x_ptr + row * cols + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, total + last, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=torch.float32)
        sum_kernel[(triton.cdiv(cols, 64),)](x, out, rows, cols, BLOCK=64)
        return out
