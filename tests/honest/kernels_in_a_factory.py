# task: wright/relu
# expect: correct
# why: the kernel is defined inside a function and closes over a constant
import torch
import torch.nn as nn
import triton
import triton.language as tl

def make(floor):
    bottom = tl.constexpr(floor)

    @triton.jit
    def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at, mask=at < n)
        tl.store(out_ptr + at, tl.maximum(x, bottom), mask=at < n)

    return kernel


relu_kernel = make(0.0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
