# task: wright/cumsum
# cheat: 17
# expect: nondeterministic
# why: each block of a scan reads its left neighbour's result, which need not be there yet
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def cumsum_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = tl.program_id(1) * BLOCK
    at = start + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    before = tl.load(out_ptr + row * cols + start - 1, mask=start > 0, other=0.0)
    tl.store(out_ptr + row * cols + at, tl.cumsum(x, axis=0) + before, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        cumsum_kernel[(rows, triton.cdiv(cols, 64))](x, out, cols, BLOCK=64)
        return out
