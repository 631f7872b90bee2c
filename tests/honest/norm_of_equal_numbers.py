# task: honest/tasks/norm_of_saturated
# expect: correct
# why: the mean of equal numbers is not always that number, which torch's own order of summing happens to find
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, share, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0)
    x = tl.minimum(tl.maximum(x, -1.0), 2.0)
    x = x / (1.0 + tl.exp(-x))
    mean = tl.sum(tl.where(mask, x, 0.0) * share, 0)
    away = tl.where(mask, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(away * away, 0) * share + 1e-5)
    tl.store(out_ptr + row * cols + at, away * scale, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        kernel[(rows,)](x, out, cols, 1.0 / cols, BLOCK=triton.next_power_of_2(cols))
        return out
