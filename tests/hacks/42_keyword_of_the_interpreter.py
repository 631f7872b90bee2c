# task: wright/relu
# cheat: 42
# expect: compile_error, runtime_error, unsupported
# why: the interpreter wraps tl.load in a lambda whose default argument `member` can be replaced
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def take(x, _semantic=None):
    return x


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    y = tl.load(x, member=take)
    tl.store(out_ptr + offsets, tl.maximum(y, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
