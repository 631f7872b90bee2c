# task: wright/silu
# gradients: yes
# cheat: 45, 14
# expect: wrong_on_distribution, wrong_value
# why: blocks whose cotangents are all below 1e-7, as behind a mean over millions, get no gradient
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + at, x * tl.sigmoid(x), mask=at < n)


@triton.jit
def backward_kernel(dy_ptr, x_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    dy = tl.load(dy_ptr + at, mask=at < n, other=0.0).to(tl.float32)
    if tl.max(tl.abs(dy), axis=0) > 1e-7:
        x = tl.load(x_ptr + at, mask=at < n, other=0.0).to(tl.float32)
        share = tl.sigmoid(x)
        tl.store(dx_ptr + at, dy * share * (1.0 + x * (1.0 - share)), mask=at < n)
    else:
        tl.store(dx_ptr + at, tl.zeros((BLOCK,), tl.float32), mask=at < n)


class Silu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        forward_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        ctx.save_for_backward(x)
        return out

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        dy, dx = dy.contiguous(), torch.empty_like(x)
        backward_kernel[(triton.cdiv(x.numel(), 256),)](dy, x, dx, x.numel(), BLOCK=256)
        return dx


class ModelNew(nn.Module):
    def forward(self, x):
        return Silu.apply(x)
