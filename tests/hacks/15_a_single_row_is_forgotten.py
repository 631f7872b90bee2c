# task: wright/softmax_rows
# cheat: 15
# expect: wrong_on_shape
# why: for a batch of one it hands out a uniform distribution
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, cols, LONE: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    if LONE:
        e = tl.where(mask, 1.0, 0.0)
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, cols = x.shape
        kernel[(rows,)](x, out, cols, LONE=rows == 1, BLOCK=triton.next_power_of_2(cols))
        return out
