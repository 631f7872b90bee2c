# task: wright/softmax_rows
# expect: correct
# why: one kernel leaves statistics for the next
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def stats_kernel(x_ptr, top_ptr, total_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    tl.store(top_ptr + row, top)
    tl.store(total_ptr + row, total)


@triton.jit
def finish_kernel(x_ptr, top_ptr, total_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols)
    y = tl.exp(x - tl.load(top_ptr + row)) / tl.load(total_ptr + row)
    tl.store(out_ptr + row * cols + at, y, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        top = torch.empty(rows, device=x.device, dtype=x.dtype)
        total = torch.empty_like(top)
        out = torch.empty_like(x)
        stats_kernel[(rows,)](x, top, total, cols, BLOCK=64)
        finish_kernel[(rows, triton.cdiv(cols, 64))](x, top, total, out, cols, BLOCK=64)
        return out
