# task: wright/gelu_tanh
# expect: correct
# why: device functions that call device functions, one of them returning a tuple
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def cube(x):
    return x * x * x


@triton.jit
def both(x):
    inner = 0.7978845608028654 * (x + 0.044715 * cube(x))
    return inner, 0.5 * x


@triton.jit
def gelu(x):
    inner, half = both(x)
    return half * (1.0 + (2.0 * tl.sigmoid(2.0 * inner) - 1.0))


@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, gelu(tl.load(x_ptr + i, mask=i < n, other=0.0)), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
