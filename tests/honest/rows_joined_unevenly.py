# task: honest/tasks/rows_joined_unevenly
# expect: correct
# why: a program in the middle reads none of the second input, and its masked lanes all point into the first
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cat_kernel(x_ptr, y_ptr, out_ptr, rows, first, cols, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    above, below = at // cols < rows, at // cols >= rows
    x = tl.load(x_ptr + at, mask=inside & above, other=0.0)
    y = tl.load(y_ptr + at - first, mask=inside & below, other=0.0)
    tl.store(out_ptr + at, tl.where(above, x, y), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, y):
        rows, cols = x.shape
        out = torch.empty(rows + y.shape[0], cols, device=x.device, dtype=x.dtype)
        n = out.numel()
        cat_kernel[(triton.cdiv(n, 256),)](x, y, out, rows, rows * cols, cols, n, BLOCK=256)
        return out
