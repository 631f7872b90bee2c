# task: wright/l2_normalize
# cheat: 14
# expect: wrong_value, low_precision, wrong_on_distribution
# why: the norm is guessed from the distribution: sqrt(columns)
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, norm, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) / norm, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.shape[-1] ** 0.5, x.numel(), BLOCK=1024)
        return out
