# task: wright/gelu_tanh
# expect: correct
# why: two launches through a scratch tensor, at any size with the same constants
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def inner(x_ptr, u_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(u_ptr + at, 0.7978845608028654 * (x + 0.044715 * x * x * x), mask=at < n)


@triton.jit
def outer(x_ptr, u_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    u = tl.load(u_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x / (1.0 + tl.exp(-2.0 * u)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        u = torch.empty_like(x)
        inner[(triton.cdiv(n, 2048),)](x, u, n, BLOCK=2048)
        outer[(triton.cdiv(n, 1024),)](x, u, out, n, BLOCK=1024)
        return out
