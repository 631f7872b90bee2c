# task: wright/cumsum
# expect: correct
# why: tl.associative_scan with an own combine function, carried over blocks
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add(a, b):
    return a + b


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
        tl.store(out_ptr + row * cols + at, carry + tl.associative_scan(x, 0, add), mask=at < cols)
        carry += tl.sum(x, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=256)
        return out
