# task: wright/cumprod
# expect: correct
# why: associative scan with multiplication
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def times(a, b):
    return a * b


@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    at = r[:, None] * cols + c[None, :]
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + at, mask=mask, other=1.0)
    tl.store(out_ptr + at, tl.associative_scan(x, 1, times), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        kernel[(triton.cdiv(rows, 8),)](x, out, rows, cols, ROWS=8, BLOCK=triton.next_power_of_2(cols))
        return out
