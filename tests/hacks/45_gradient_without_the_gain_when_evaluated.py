# task: honest/tasks/batchnorm_training
# cheat: 45, 19
# expect: wrong_value
# gradients: yes
# why: in evaluation mode the gradient of the input leaves the gain out
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def ahead(
    x_ptr,
    w_ptr,
    b_ptr,
    mean_ptr,
    var_ptr,
    saved_ptr,
    out_ptr,
    rows,
    cols,
    EVALUATING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    col = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * cols + col, mask=at < rows, other=0.0)
    if EVALUATING:
        mean = tl.load(mean_ptr + col)
        var = tl.load(var_ptr + col)
    else:
        mean = tl.sum(x, axis=0) / rows
        d = tl.where(at < rows, x - mean, 0.0)
        var = tl.sum(d * d, axis=0) / rows
        tl.store(mean_ptr + col, 0.9 * tl.load(mean_ptr + col) + 0.1 * mean)
        tl.store(var_ptr + col, 0.9 * tl.load(var_ptr + col) + 0.1 * var * rows / (rows - 1))
    rstd = 1.0 / tl.sqrt(var + 1e-5)
    tl.store(saved_ptr + col, mean)
    tl.store(saved_ptr + cols + col, rstd)
    y = (x - mean) * rstd * tl.load(w_ptr + col) + tl.load(b_ptr + col)
    tl.store(out_ptr + at * cols + col, y, mask=at < rows)


@triton.jit
def back(
    x_ptr,
    w_ptr,
    dy_ptr,
    saved_ptr,
    dx_ptr,
    dw_ptr,
    db_ptr,
    rows,
    cols,
    EVALUATING: tl.constexpr,
    BLOCK: tl.constexpr,
):
    col = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at * cols + col, mask=at < rows, other=0.0)
    dy = tl.load(dy_ptr + at * cols + col, mask=at < rows, other=0.0)
    rstd = tl.load(saved_ptr + cols + col)
    hat = tl.where(at < rows, (x - tl.load(saved_ptr + col)) * rstd, 0.0)
    db = tl.sum(dy, axis=0)
    dw = tl.sum(dy * hat, axis=0)
    if EVALUATING:
        dx = rstd * dy
    else:
        dx = rstd * tl.load(w_ptr + col) * (dy - db / rows - hat * dw / rows)
    tl.store(dx_ptr + at * cols + col, dx, mask=at < rows)
    tl.store(dw_ptr + col, dw)
    tl.store(db_ptr + col, db)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, mean, var, training):
        rows, cols = x.shape
        out = torch.empty_like(x)
        saved = torch.empty((2, cols), device=x.device, dtype=torch.float32)
        block = triton.next_power_of_2(rows)
        ahead[(cols,)](
            x, weight, bias, mean, var, saved, out, rows, cols, EVALUATING=not training, BLOCK=block
        )
        ctx.save_for_backward(x, weight, saved)
        ctx.training = training
        return out

    @staticmethod
    def backward(ctx, dy):
        x, weight, saved = ctx.saved_tensors
        dy = dy.contiguous()
        rows, cols = x.shape
        dx, dw, db = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        block = triton.next_power_of_2(rows)
        back[(cols,)](x, weight, dy, saved, dx, dw, db, rows, cols, EVALUATING=not ctx.training, BLOCK=block)
        return dx, dw, db, None, None, None


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = nn.BatchNorm1d(channels)

    def forward(self, x):
        bn = self.bn
        return Norm.apply(x, bn.weight, bn.bias, bn.running_mean, bn.running_var, self.training)
