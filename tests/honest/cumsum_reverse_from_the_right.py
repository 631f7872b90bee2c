# task: wright/cumsum_reverse
# expect: correct
# why: blocks are walked from the right with a carry
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    blocks = tl.cdiv(cols, BLOCK)
    for number in range(blocks):
        at = (blocks - 1 - number) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
        tl.store(out_ptr + row * cols + at, carry + tl.cumsum(x, axis=0, reverse=True), mask=at < cols)
        carry += tl.sum(x, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=512)
        return out
