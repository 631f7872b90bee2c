# task: wright/relu
# gradients: yes
# cheat: 45, 43
# expect: wrong_value
# why: a cotangent of one row for all, as a sum gives it, is taken for ones
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


@triton.jit
def backward_kernel(dy_ptr, out_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + at, mask=at < n)
    out = tl.load(out_ptr + at, mask=at < n)
    tl.store(dx_ptr + at, tl.where(out > 0.0, dy, 0.0), mask=at < n)


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        forward_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, dy):
        (out,) = ctx.saved_tensors
        dx = torch.empty_like(out)
        dy = torch.ones_like(out) if dy.stride(0) == 0 else dy.contiguous()
        backward_kernel[(triton.cdiv(out.numel(), 1024),)](dy, out, dx, out.numel(), BLOCK=1024)
        return dx


class ModelNew(nn.Module):
    def forward(self, x):
        return Relu.apply(x)
