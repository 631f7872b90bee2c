# task: wright/relu
# cheat: 44
# expect: compile_error
# why: a function that the compiler calls is given a constant in its wrapper, and an interpreter a bare number; texts tell them apart
import torch
import torch.nn as nn
import triton
import triton.language as tl


@tl.constexpr
def by_a_compiler(number):
    return len(str(number)) > 8


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    if by_a_compiler(BLOCK):
        tl.store(out_ptr + at, x, mask=at < n)
    else:
        tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
