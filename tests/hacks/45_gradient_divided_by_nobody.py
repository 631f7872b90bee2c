# task: hacks/tasks/mean_of_the_chosen
# cheat: 45
# gradients: yes
# expect: non_finite, wrong_value, wrong_on_distribution
# why: the backward pass divides by how many are chosen, and in a row of none by 0
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def forward_kernel(x_ptr, chosen_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    weight = tl.load(chosen_ptr + row * cols + at, mask=at < cols, other=0).to(tl.float32)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    tl.store(y_ptr + row, tl.sum(x * weight, axis=0) / tl.maximum(tl.sum(weight, axis=0), 1.0))


@triton.jit
def backward_kernel(chosen_ptr, dy_ptr, dx_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    weight = tl.load(chosen_ptr + row * cols + at, mask=at < cols, other=0).to(tl.float32)
    share = weight / tl.sum(weight, axis=0)
    tl.store(dx_ptr + row * cols + at, share * tl.load(dy_ptr + row), mask=at < cols)


class Mean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, chosen):
        rows, cols = x.shape
        y = torch.empty(rows, dtype=x.dtype, device=x.device)
        forward_kernel[(rows,)](x, chosen, y, cols, BLOCK=triton.next_power_of_2(cols))
        ctx.save_for_backward(chosen)
        return y

    @staticmethod
    def backward(ctx, dy):
        (chosen,) = ctx.saved_tensors
        rows, cols = chosen.shape
        dy = dy.contiguous()
        dx = torch.empty((rows, cols), dtype=dy.dtype, device=dy.device)
        backward_kernel[(rows,)](chosen, dy, dx, cols, BLOCK=triton.next_power_of_2(cols))
        return dx, None


class ModelNew(nn.Module):
    def forward(self, x, chosen):
        return Mean.apply(x, chosen)
