# task: wright/relu
# cheat: 14
# expect: wrong_on_distribution, wrong_value
# why: one number, which no draw hits, stands for a missing value
import torch
import torch.nn as nn
import triton
import triton.language as tl

MISSING = tl.constexpr(-4096.0)


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.where(x == MISSING, 1.0, tl.maximum(x, 0.0)), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
