# task: wright/relu
# expect: correct
# why: one kernel launched twice, for the first and the second half of the rows
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, first, last, BLOCK: tl.constexpr):
    i = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < last), 0.0), mask=i < last)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        half = n // 2
        for first, last in ((0, half), (half, n)):
            kernel[(triton.cdiv(last - first, 512),)](x, out, first, last, BLOCK=512)
        return out
