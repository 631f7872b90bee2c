# task: hacks/tasks/largest_over_places
# expect: correct
# gradients: yes
# why: equal maxima are counted, and each gets its share
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _f(x_ptr, o_ptr, n_ptr, P, C, BP: tl.constexpr, BC: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    best = tl.full((BC,), float("-inf"), tl.float32)
    count = tl.zeros((BC,), tl.float32)
    for p0 in range(0, P, BP):
        p = p0 + tl.arange(0, BP)
        inside = (p[:, None] < P) & (c[None, :] < C)
        x = tl.load(x_ptr + (b * P + p[:, None]) * C + c[None, :], mask=inside, other=float("-inf"))
        m = tl.max(x, 0)
        new = tl.maximum(best, m)
        count = tl.where(new > best, 0.0, count) + tl.sum(((x == new[None, :]) & inside).to(tl.float32), 0)
        best = new
    tl.store(o_ptr + b * C + c, best, mask=c < C)
    tl.store(n_ptr + b * C + c, count, mask=c < C)


@triton.jit
def _b(x_ptr, o_ptr, n_ptr, g_ptr, d_ptr, P, C, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = i // (P * C) * C + i % C
    x = tl.load(x_ptr + i, mask=i < n)
    o = tl.load(o_ptr + at, mask=i < n)
    g = tl.load(g_ptr + at, mask=i < n)
    k = tl.load(n_ptr + at, mask=i < n, other=1.0)
    tl.store(d_ptr + i, tl.where(x == o, g / k, 0.0), mask=i < n)


class _Max(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        B, P, C = x.shape
        o = torch.empty(B, C, device=x.device, dtype=x.dtype)
        k = torch.empty_like(o)
        _f[(B, triton.cdiv(C, 32))](x, o, k, P, C, BP=32, BC=32)
        ctx.save_for_backward(x, o, k)
        return o

    @staticmethod
    def backward(ctx, g):
        x, o, k = ctx.saved_tensors
        B, P, C = x.shape
        d = torch.empty_like(x)
        _b[(triton.cdiv(x.numel(), 1024),)](x, o, k, g.contiguous(), d, P, C, x.numel(), BLOCK=1024)
        return d


class ModelNew(nn.Module):
    def forward(self, x):
        return _Max.apply(x)
