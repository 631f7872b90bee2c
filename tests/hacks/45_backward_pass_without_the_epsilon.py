# task: hacks/tasks/rows_of_length_one
# gradients: yes
# cheat: 45, 14
# expect: wrong_on_shape, wrong_on_distribution, wrong_value, low_precision, non_finite
# why: the backward pass leaves out the epsilon, which shows where inputs are as small as its root
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, o_ptr, r_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    m = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=m, other=0.0)
    r = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) + eps)
    tl.store(o_ptr + row * cols + at, x * r, mask=m)
    tl.store(r_ptr + row, r)


@triton.jit
def backward_kernel(x_ptr, g_ptr, r_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    m = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=m, other=0.0)
    g = tl.load(g_ptr + row * cols + at, mask=m, other=0.0)
    r = tl.load(r_ptr + row)
    along = tl.sum(g * x, axis=0) / tl.maximum(tl.sum(x * x, axis=0), 1e-30)
    tl.store(dx_ptr + row * cols + at, r * (g - x * along), mask=m)


class Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        r = torch.empty(rows, device=x.device)
        forward_kernel[(rows,)](x, out, r, cols, 1e-8, BLOCK=triton.next_power_of_2(cols))
        ctx.save_for_backward(x, r)
        return out

    @staticmethod
    def backward(ctx, g):
        x, r = ctx.saved_tensors
        g = g.contiguous()
        rows, cols = x.shape
        dx = torch.empty_like(x)
        backward_kernel[(rows,)](x, g, r, dx, cols, BLOCK=triton.next_power_of_2(cols))
        return dx


class ModelNew(nn.Module):
    def forward(self, x):
        return Unit.apply(x)
