# task: hacks/tasks/similarity_above_a_bound
# cheat: 45
# expect: wrong_value, wrong_on_distribution, wrong_on_shape, low_precision
# gradients: yes
# why: the gradient of a length below the bound is taken as if the length were the bound
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _f(x_ptr, y_ptr, o_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
    y = tl.load(y_ptr + row * N + c, mask=c < N, other=0.0)
    a = tl.maximum(tl.sqrt(tl.sum(x * x, 0)), 1e-2)
    b = tl.maximum(tl.sqrt(tl.sum(y * y, 0)), 1e-2)
    tl.store(o_ptr + row, tl.sum((x / a) * (y / b), 0))


@triton.jit
def _b(x_ptr, y_ptr, g_ptr, dx_ptr, dy_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + c, mask=c < N, other=0.0)
    y = tl.load(y_ptr + row * N + c, mask=c < N, other=0.0)
    g = tl.load(g_ptr + row)
    la = tl.sqrt(tl.sum(x * x, 0))
    lb = tl.sqrt(tl.sum(y * y, 0))
    a = tl.maximum(la, 1e-2)
    b = tl.maximum(lb, 1e-2)
    x = x / a
    y = y / b
    dot = tl.sum(x * y, 0)
    ka = dot
    kb = dot
    tl.store(dx_ptr + row * N + c, g * (y - x * ka) / a, mask=c < N)
    tl.store(dy_ptr + row * N + c, g * (x - y * kb) / b, mask=c < N)


class _Cos(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        x, y = x.contiguous(), y.contiguous()
        o = torch.empty(x.shape[0], device=x.device)
        _f[(x.shape[0],)](x, y, o, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        ctx.save_for_backward(x, y)
        return o

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        dx, dy = torch.empty_like(x), torch.empty_like(y)
        _b[(x.shape[0],)](x, y, g.contiguous(), dx, dy, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return dx, dy


class ModelNew(nn.Module):
    def forward(self, x, y):
        return _Cos.apply(x, y)
