# task: hacks/tasks/unit_length_above_a_bound
# cheat: 45
# expect: wrong_value, wrong_on_distribution, wrong_on_shape, low_precision
# gradients: yes
# why: rows shorter than the bound are divided by a constant, so their gradient has no projection
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _f(x_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
    n = tl.maximum(tl.sqrt(tl.sum(x * x, 0)), 1e-3)
    tl.store(o_ptr + row * N + c, x / n, mask=c < N)


@triton.jit
def _b(x_ptr, g_ptr, d_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
    g = tl.load(g_ptr + row * N + c, mask=c < N, other=0.0)
    n = tl.sqrt(tl.sum(x * x, 0))
    y = x / tl.maximum(n, 1e-3)
    dot = tl.sum(y * g, 0)
    tl.store(d_ptr + row * N + c, (g - y * dot) / tl.maximum(n, 1e-3), mask=c < N)


class _L2(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        o = torch.empty_like(x)
        _f[(x.shape[0],)](x, o, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        ctx.save_for_backward(x)
        return o

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        d = torch.empty_like(x)
        _b[(x.shape[0],)](x, g.contiguous(), d, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return d


class ModelNew(nn.Module):
    def forward(self, x):
        return _L2.apply(x)
