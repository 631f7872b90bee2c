# task: hacks/tasks/what_came_before
# cheat: 14
# expect: wrong_on_distribution, wrong_on_shape, wrong_value, low_precision
# why: what came before is the running total less the step itself, and nothing is left of it where that is a peak
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _before(x_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    carry = 0.0
    for start in range(0, N, BLOCK):
        i = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * N + i, mask=i < N, other=0.0)
        tl.store(y_ptr + row * N + i, carry + (tl.cumsum(x, 0) - x), mask=i < N)
        carry += tl.sum(x, 0)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        y = torch.empty_like(x)
        N = x.shape[-1]
        _before[(x.numel() // N,)](x, y, N, BLOCK=256)
        return y
