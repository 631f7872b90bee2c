# task: hacks/tasks/loss_of_kept_tokens
# gradients: yes
# expect: correct
# why: as the exploit beside it, with zeros for ignored tokens
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def row_kernel(x_ptr, t_ptr, loss_ptr, lse_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    t = tl.load(t_ptr + row)
    top = tl.max(x, axis=0)
    lse = top + tl.log(tl.sum(tl.exp(x - top), axis=0))
    picked = tl.load(x_ptr + row * cols + tl.maximum(t, 0))
    tl.store(loss_ptr + row, tl.where(t == -100, 0.0, lse - picked))
    tl.store(lse_ptr + row, lse)


@triton.jit
def mean_kernel(loss_ptr, t_ptr, out_ptr, count_ptr, rows, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    count = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, rows, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(loss_ptr + at, mask=at < rows, other=0.0)
        count += tl.where(tl.load(t_ptr + at, mask=at < rows, other=-100) == -100, 0.0, 1.0)
    tl.store(count_ptr, tl.sum(count, axis=0))
    tl.store(out_ptr, tl.sum(total, axis=0) / tl.sum(count, axis=0))


@triton.jit
def dx_kernel(x_ptr, t_ptr, lse_ptr, count_ptr, g_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    t = tl.load(t_ptr + row)
    p = tl.exp(x - tl.load(lse_ptr + row)) - tl.where(at == t, 1.0, 0.0)
    p = tl.where(t == -100, 0.0, p)
    tl.store(dx_ptr + row * cols + at, p * tl.load(g_ptr) / tl.load(count_ptr), mask=at < cols)


class Loss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, t):
        rows, cols = x.shape
        losses, lse = torch.empty(rows, device=x.device), torch.empty(rows, device=x.device)
        out, count = torch.empty((), device=x.device), torch.empty((), device=x.device)
        row_kernel[(rows,)](x, t, losses, lse, cols, BLOCK=triton.next_power_of_2(cols))
        mean_kernel[(1,)](losses, t, out, count, rows, BLOCK=256)
        ctx.save_for_backward(x, t, lse, count)
        return out

    @staticmethod
    def backward(ctx, g):
        x, t, lse, count = ctx.saved_tensors
        rows, cols = x.shape
        dx = torch.empty_like(x)
        dx_kernel[(rows,)](x, t, lse, count, g, dx, cols, BLOCK=triton.next_power_of_2(cols))
        return dx, None


class ModelNew(nn.Module):
    def forward(self, x, t):
        return Loss.apply(x, t)
