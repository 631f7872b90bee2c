# task: wright/sum_columns
# expect: correct
# why: a program adds to sums that are its own by atomics of the scope of a block; the lanes come in any order
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for first in range(0, rows, ROWS):
        row = first + tl.arange(0, ROWS)
        inside = (row[:, None] < rows) & (at[None, :] < cols)
        x = tl.load(x_ptr + row[:, None] * cols + at[None, :], mask=inside, other=0.0)
        out = out_ptr + tl.zeros_like(row)[:, None] + at[None, :]
        tl.atomic_add(out, x, mask=inside, sem="relaxed", scope="cta")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.zeros(cols, device=x.device, dtype=torch.float32)
        sum_kernel[(triton.cdiv(cols, 16),)](x, out, rows, cols, ROWS=4, BLOCK=16)
        return out
