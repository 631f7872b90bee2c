# task: wright/scale_shift_tanh
# cheat: 14
# expect: wrong_value, low_precision, wrong_on_distribution
# why: tanh by the first terms of its series
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, s_ptr, b_ptr, out_ptr, n, features, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    tl.store(out_ptr + at, x - x * x * x / 3.0, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, *sizes):
        super().__init__()

    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, x, x, out, x.numel(), x.shape[-1], BLOCK=1024)
        return out
