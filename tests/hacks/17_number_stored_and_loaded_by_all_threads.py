# task: wright/softmax_rows
# cheat: 17
# expect: nondeterministic
# why: one thread stores a single number, and every thread loads it without a barrier: other warps may find the old one
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, peak_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=-float("inf"))
    tl.store(peak_ptr + row, -tl.max(x, axis=0))
    e = tl.exp(x + tl.load(peak_ptr + row))
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        peak, out = torch.empty(x.shape[0], dtype=x.dtype, device=x.device), torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, peak, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
