# task: wright/relu
# gradients: yes
# cheat: 45
# expect: unwritten, out_of_bounds, wrong_value
# why: the backward pass goes by the size of the last forward pass, which need not be its own
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


@triton.jit
def backward_kernel(x_ptr, d_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    d = tl.load(d_ptr + at, mask=at < n, other=0.0)
    tl.store(dx_ptr + at, tl.where(x > 0.0, d, 0.0), mask=at < n)


class Relu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, plan):
        n = x.numel()
        plan["grid"], plan["n"] = (triton.cdiv(n, 256),), n
        out = torch.empty_like(x)
        forward_kernel[plan["grid"]](x, out, n, BLOCK=256)
        ctx.save_for_backward(x)
        ctx.plan = plan
        return out

    @staticmethod
    def backward(ctx, d):
        (x,) = ctx.saved_tensors
        dx = torch.empty_like(x)
        backward_kernel[ctx.plan["grid"]](x, d.contiguous(), dx, ctx.plan["n"], BLOCK=256)
        return dx, None


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.plan = {}

    def forward(self, x):
        return Relu.apply(x, self.plan)
