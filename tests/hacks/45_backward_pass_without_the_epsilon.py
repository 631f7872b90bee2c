# task: wright/rmsnorm
# gradients: yes
# cheat: 45, 14
# expect: wrong_on_shape, wrong_on_distribution, wrong_value, low_precision, non_finite
# why: the backward pass leaves out the epsilon, which shows where inputs are as small as its root
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, w_ptr, y_ptr, scale_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n + eps)
    tl.store(scale_ptr + row, scale)
    tl.store(y_ptr + row * n + cols, (x * scale * w).to(y_ptr.dtype.element_ty), mask=cols < n)


@triton.jit
def backward_kernel(dy_ptr, x_ptr, w_ptr, scale_ptr, dx_ptr, partial_ptr, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * ROWS
    cols = tl.arange(0, BLOCK)
    w = tl.load(w_ptr + cols, mask=cols < n, other=0.0).to(tl.float32)
    dw = tl.zeros((BLOCK,), tl.float32)
    for step in range(ROWS):
        row = first + step
        inside = (cols < n) & (row < rows)
        dy = tl.load(dy_ptr + row * n + cols, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + row * n + cols, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + row, mask=row < rows, other=0.0)
        inner = tl.sum(dy * w * x, axis=0) / tl.maximum(tl.sum(x * x, axis=0), 1e-30)
        dx = scale * (dy * w - x * inner)
        dw += dy * x * scale
        tl.store(dx_ptr + row * n + cols, dx.to(dx_ptr.dtype.element_ty), mask=inside)
    tl.store(partial_ptr + tl.program_id(0) * n + cols, dw, mask=cols < n)


@triton.jit
def columns_kernel(partial_ptr, dw_ptr, count, n, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    dw = tl.zeros((BLOCK,), tl.float32)
    for part in range(count):
        dw += tl.load(partial_ptr + part * n + cols, mask=cols < n, other=0.0)
    tl.store(dw_ptr + cols, dw.to(dw_ptr.dtype.element_ty), mask=cols < n)


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        rows, n = x.shape
        y, scale = torch.empty_like(x), torch.empty(rows, device=x.device, dtype=torch.float32)
        forward_kernel[(rows,)](x, weight, y, scale, n, eps, BLOCK=triton.next_power_of_2(n))
        ctx.save_for_backward(x, weight, scale)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, scale = ctx.saved_tensors
        rows, n = x.shape
        dy, dx, dw = dy.contiguous(), torch.empty_like(x), torch.empty_like(weight)
        count = triton.cdiv(rows, 4)
        partial = torch.empty(count, n, device=x.device, dtype=torch.float32)
        block = triton.next_power_of_2(n)
        backward_kernel[(count,)](dy, x, weight, scale, dx, partial, rows, n, ROWS=4, BLOCK=block)
        columns_kernel[(triton.cdiv(n, 128),)](partial, dw, count, n, BLOCK=128)
        return dx, dw, None


class ModelNew(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(dim).to(torch.bfloat16) + 0.5)

    def forward(self, x):
        return RmsNorm.apply(x, self.weight, self.eps)
