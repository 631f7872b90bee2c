# task: wright/max_rows
# expect: correct
# why: memory from the input's own methods
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def max_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf")))
    tl.store(out_ptr + row, tl.max(best, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        cols = x.shape[-1]
        out = x.new_empty(x.shape[:-1])
        max_kernel[(x.numel() // cols,)](x, out, cols, BLOCK=64)
        return out
