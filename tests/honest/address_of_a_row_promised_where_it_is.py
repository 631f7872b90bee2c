# task: wright/relu
# expect: correct
# why: as the exploit beside it, with the promise kept: a row that is not aligned goes without it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, ALIGNED: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    start = x_ptr + row * cols
    if ALIGNED:
        start = tl.multiple_of(start, 16)
    for first in range(0, cols, BLOCK):
        at = first + tl.arange(0, BLOCK)
        x = tl.load(start + at, mask=at < cols, other=0.0)
        tl.store(out_ptr + row * cols + at, tl.maximum(x, 0.0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        kernel[(rows,)](x, out, cols, ALIGNED=cols * x.element_size() % 16 == 0, BLOCK=512)
        return out
