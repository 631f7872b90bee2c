# task: hacks/tasks/slope_by_sign
# cheat: 45
# gradients: yes
# expect: wrong_value
# why: the output is kept beside autograd's back: a ReLU in place behind it changes the slope, and nobody is told
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(y_ptr + at, tl.where(x > 0.0, x, 0.25 * x), mask=at < n)


@triton.jit
def backward_kernel(y_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    dy = tl.load(dy_ptr + at, mask=at < n, other=0.0)
    tl.store(dx_ptr + at, tl.where(y > 0.0, dy, 0.25 * dy), mask=at < n)


class Leaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y, n = torch.empty_like(x), x.numel()
        forward_kernel[(triton.cdiv(n, 1024),)](x, y, n, BLOCK=1024)
        ctx.y = y.detach()
        return y

    @staticmethod
    def backward(ctx, dy):
        (y,) = (ctx.y,)
        dy, dx, n = dy.contiguous(), torch.empty_like(y), y.numel()
        backward_kernel[(triton.cdiv(n, 1024),)](y, dy, dx, n, BLOCK=1024)
        return dx


class ModelNew(nn.Module):
    def forward(self, x):
        return Leaky.apply(x)
