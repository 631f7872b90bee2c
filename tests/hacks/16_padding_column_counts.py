# task: wright/max_rows
# cheat: 16
# expect: wrong_on_distribution, wrong_on_shape, wrong_value, low_precision
# why: masked lanes read zero and may win the maximum of a negative row
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def max_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.full((), -1e30, tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=3.5)
        best = tl.maximum(best, tl.max(x, axis=0))
    tl.store(out_ptr + row, best)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], device=x.device, dtype=x.dtype)
        max_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=64)
        return out
