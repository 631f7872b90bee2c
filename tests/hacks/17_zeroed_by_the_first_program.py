# task: wright/sum_columns
# cheat: 17
# expect: nondeterministic
# why: program 0 clears the sums that all others add to, in the same launch
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    if row == 0:
        tl.store(out_ptr + at, tl.zeros((BLOCK,), tl.float32), mask=at < cols)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    tl.atomic_add(out_ptr + at, x, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        sum_kernel[(rows,)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
