# task: wright/relu
# expect: correct
# why: tl functions imported by name
import torch
import torch.nn as nn
import triton
from triton import cdiv, jit
from triton.language import arange, constexpr, load, maximum, program_id, store

@jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: constexpr):
    at = program_id(0) * BLOCK + arange(0, BLOCK)
    store(out_ptr + at, maximum(load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
