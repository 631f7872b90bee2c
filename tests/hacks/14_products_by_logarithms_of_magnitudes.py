# task: wright/cumprod
# cheat: 14
# expect: wrong_on_distribution, wrong_value, low_precision
# why: a zero counts as 1e-37, and large factors behind it bring that back
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def products_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + at, mask=at < n, other=1.0)
    fine = tl.associative_scan(x, 0, multiplied)
    small = tl.exp2(tl.cumsum(tl.log2(tl.maximum(tl.abs(x), 1e-37)), 0))
    met = tl.cumsum((x == 0.0).to(tl.int32), 0) > 0
    tl.store(out_ptr + row * n + at, tl.where(met, small, fine), mask=at < n)


@triton.jit
def multiplied(a, b):
    return a * b


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        products_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
