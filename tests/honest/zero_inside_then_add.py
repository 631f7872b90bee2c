# task: wright/sum_columns
# expect: correct
# why: memory from empty, cleared by zero_(), then summed into by atomics
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    tl.atomic_add(out_ptr + at, tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        out.zero_()
        kernel[(rows,)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
