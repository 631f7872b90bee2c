# task: wright/cumsum
# cheat: 38
# expect: out_of_bounds
# why: each row adds the last element of the row before it, the first row what lies before the tensor
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def cumsum_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    before = tl.load(x_ptr + row * cols - 1)
    tl.store(out_ptr + row * cols + at, tl.cumsum(x, axis=0) + 0.0 * before, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        cumsum_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
