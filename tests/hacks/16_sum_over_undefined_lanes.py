# task: wright/sum_columns
# cheat: 16
# expect: non_finite, wrong_value, wrong_on_shape, unwritten
# why: masked lanes without `other` are undefined, and are summed: zero by luck on some hardware
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    column = tl.program_id(0)
    total = 0.0
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + at * cols + column, mask=at < rows), axis=0)
    tl.store(out_ptr + column, total)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        sum_kernel[(cols,)](x, out, rows, cols, BLOCK=64)
        return out
