# task: hacks/tasks/over_its_length
# cheat: 45
# expect: wrong_on_shape, wrong_on_distribution, low_precision
# gradients: yes
# why: the backward pass leaves out the constant, which shows where rows are short
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, out_ptr, r_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    r = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) + 1e-8)
    tl.store(out_ptr + row * cols + at, x * r, mask=at < cols)
    tl.store(r_ptr + row, r)


@triton.jit
def backward_kernel(x_ptr, g_ptr, r_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    g = tl.load(g_ptr + row * cols + at, mask=at < cols, other=0.0)
    r = tl.load(r_ptr + row)
    along = tl.sum(g * x, axis=0) / tl.maximum(tl.sum(x * x, axis=0), 1e-30)
    tl.store(dx_ptr + row * cols + at, r * (g - x * along), mask=at < cols)


class Unit(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        r = torch.empty(rows, device=x.device)
        forward_kernel[(rows,)](x, out, r, cols, BLOCK=triton.next_power_of_2(cols))
        ctx.save_for_backward(x, r)
        return out

    @staticmethod
    def backward(ctx, g):
        x, r = ctx.saved_tensors
        rows, cols = x.shape
        dx = torch.empty_like(x)
        backward_kernel[(rows,)](x, g.contiguous(), r, dx, cols, BLOCK=triton.next_power_of_2(cols))
        return dx


class ModelNew(nn.Module):
    def forward(self, x):
        return Unit.apply(x)
