# task: wright/softplus
# gradients: yes
# expect: correct
# why: the slope is kept in memory of its own: whoever overwrites input and output changes nothing
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, y_ptr, slope_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    small = tl.minimum(x, 20.0)
    y = tl.maximum(small, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(small)))
    tl.store(y_ptr + at, tl.where(x > 20.0, x, y), mask=at < n)
    tl.store(slope_ptr + at, tl.where(x > 20.0, 1.0, tl.sigmoid(small)), mask=at < n)


@triton.jit
def backward_kernel(slope_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + at, mask=at < n, other=0.0)
    tl.store(dx_ptr + at, dy * tl.load(slope_ptr + at, mask=at < n, other=0.0), mask=at < n)


class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y, ctx.slope, n = torch.empty_like(x), torch.empty_like(x), x.numel()
        forward_kernel[(triton.cdiv(n, 1024),)](x, y, ctx.slope, n, BLOCK=1024)
        return y

    @staticmethod
    def backward(ctx, dy):
        dy, dx, n = dy.contiguous(), torch.empty_like(ctx.slope), dy.numel()
        backward_kernel[(triton.cdiv(n, 1024),)](ctx.slope, dy, dx, n, BLOCK=1024)
        return dx


class ModelNew(nn.Module):
    def forward(self, x):
        return Softplus.apply(x)
