# task: wright/relu
# expect: correct
# why: a constexpr flag leaves masks out where the size divides
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, EVEN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i), 0.0))
    else:
        tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n, block = x.numel(), 256
        kernel[(triton.cdiv(n, block),)](x, out, n, EVEN=n % block == 0, BLOCK=block)
        return out
