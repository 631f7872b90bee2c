# task: wright/softplus
# expect: correct
# why: a numerically careful form with tl.where on both branches
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def softplus_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))
    tl.store(out_ptr + at, tl.where(x > 20.0, x, y), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, *args, **kwargs):
        super().__init__()

    def forward(self, x):
        out = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
        softplus_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
