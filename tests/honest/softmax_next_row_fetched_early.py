# task: wright/softmax_rows
# expect: correct
# why: a program loads the next row before it stores one, and the last that it loads belongs to another program and is not used
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * ROWS
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    for _ in range(ROWS):
        ahead = tl.minimum(row + 1, rows - 1)
        after = tl.load(x_ptr + ahead * cols + at, mask=at < cols, other=-float("inf"))
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=(at < cols) & (row < rows))
        row += 1
        x = after


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, cols = x.shape
        kernel[(triton.cdiv(rows, 4),)](x, out, rows, cols, ROWS=4, BLOCK=triton.next_power_of_2(cols))
        return out
