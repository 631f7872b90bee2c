# task: wright/softmax_rows
# expect: correct
# why: a one-pass kernel for short rows and a looped one for long rows, both honest
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def short_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=at < cols)


@triton.jit
def long_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        new = tl.maximum(top, tl.max(x, axis=0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(x - new), axis=0)
        top = new
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
        tl.store(out_ptr + row * cols + at, tl.exp(x - top) / total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        if cols <= 2048:
            short_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
        else:
            long_kernel[(rows,)](x, out, cols, BLOCK=1024)
        return out
