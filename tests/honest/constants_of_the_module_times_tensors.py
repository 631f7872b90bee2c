# task: wright/gelu_tanh
# expect: correct
# why: a global `tl.constexpr` times a tensor is a tensor, which helpers take; Triton's own interpreter makes it a constant
import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

BLOCK = tl.constexpr(1024)
FACTOR = tl.constexpr(math.sqrt(2 / math.pi))
CUBIC = tl.constexpr(0.044715)


@triton.jit
def tanh(u):
    return 2 * tl.sigmoid(2 * u) - 1


@triton.jit
def gelu_kernel(x_ptr, out_ptr, n):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    out = 0.5 * x * (1 + tanh(FACTOR * (x + CUBIC * x * x * x)))
    tl.store(out_ptr + at, out, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        gelu_kernel[(triton.cdiv(x.numel(), BLOCK.value),)](x, out, x.numel())
        return out
