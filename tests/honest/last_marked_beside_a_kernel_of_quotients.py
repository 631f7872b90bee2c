# task: honest/tasks/last_of_the_marked
# expect: correct
# why: with nothing marked it would read before its tensor, which the reference refuses; another kernel's places are quotients
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def squash_kernel(x_ptr, out_ptr, n, steps, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at // steps * stride + at % steps, mask=at < n, other=0.0)
    tl.store(out_ptr + at, 2.0 * tl.sigmoid(2.0 * x) - 1.0, mask=at < n)


@triton.jit
def last_kernel(x_ptr, marked_ptr, out_ptr, rows, steps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    count = tl.zeros((ROWS,), tl.int32)
    for start in range(0, steps, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = (row[:, None] < rows) & (at[None, :] < steps)
        count += tl.sum(tl.load(marked_ptr + row[:, None] * steps + at[None, :], mask=inside, other=0).to(tl.int32), axis=1)
    x = tl.load(x_ptr + row * steps + count - 1, mask=row < rows, other=0.0)
    tl.store(out_ptr + row, x, mask=row < rows)


class ModelNew(nn.Module):
    def forward(self, x, marked):
        rows, steps = x.shape
        squashed, out = torch.empty_like(x), torch.empty(rows, dtype=x.dtype, device=x.device)
        squash_kernel[(triton.cdiv(x.numel(), 1024),)](x, squashed, x.numel(), steps, x.stride(0), BLOCK=1024)
        last_kernel[(triton.cdiv(rows, 16),)](squashed, marked, out, rows, steps, ROWS=16, BLOCK=64)
        return out
