# task: hacks/tasks/means_over_time
# gradients: yes
# expect: correct
# why: as the exploit beside it, with every row by the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, y_ptr, steps, dim, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for t in range(0, steps):
        total += tl.load(x_ptr + (row * steps + t) * dim + d, mask=d < dim, other=0.0)
    tl.store(y_ptr + row * dim + d, total / steps, mask=d < dim)


@triton.jit
def scale_kernel(dy_ptr, dx_ptr, steps, dim, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    g = tl.load(dy_ptr + row // steps * dim + d, mask=d < dim, other=0.0) / steps
    tl.store(dx_ptr + row * dim + d, g, mask=d < dim)


class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        b, t, d = x.shape
        y = torch.empty((b, d), dtype=x.dtype, device=x.device)
        forward_kernel[(b,)](x, y, t, d, BLOCK=triton.next_power_of_2(d))
        return y

    @staticmethod
    def backward(ctx, dy):
        b, t, d = ctx.shape
        dy, dx = dy.contiguous(), torch.empty((b, t, d), dtype=dy.dtype, device=dy.device)
        scale_kernel[(b * t,)](dy, dx, t, d, BLOCK=triton.next_power_of_2(d))
        return dx


class ModelNew(nn.Module):
    def forward(self, x):
        return Mean.apply(x)
