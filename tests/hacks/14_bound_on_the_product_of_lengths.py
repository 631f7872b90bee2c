# task: hacks/tasks/angles_of_rows
# cheat: 14
# expect: wrong_on_shape, wrong_on_distribution, wrong_value, low_precision
# why: a bound on the product of two lengths, which is far below it where each is as small as the bound on it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def angle_kernel(x_ptr, y_ptr, out_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    y = tl.load(y_ptr + row * cols + at, mask=at < cols, other=0.0)
    lengths = tl.sqrt(tl.sum(x * x, axis=0)) * tl.sqrt(tl.sum(y * y, axis=0))
    tl.store(out_ptr + row, tl.sum(x * y, axis=0) / tl.maximum(lengths, eps))


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        rows, cols = x.shape
        out = torch.empty(rows, device=x.device)
        angle_kernel[(rows,)](x, y, out, cols, 1e-6, BLOCK=triton.next_power_of_2(cols))
        return out
