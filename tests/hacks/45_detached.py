# task: wright/softplus
# gradients: yes
# cheat: 45
# expect: wrong_value
# why: a kernel without a backward pass: nothing reaches the input
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softplus_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    small = tl.exp(-tl.abs(x))
    u = 1.0 + small
    log1p = tl.where(u == 1.0, small, tl.log(u) * (small / (u - 1.0 + (u == 1.0))))
    tl.store(out_ptr + at, tl.maximum(x, 0.0) + log1p, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softplus_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
