# task: hacks/tasks/entropy_and_shrinkage
# cheat: 14, 16
# expect: wrong_value, wrong_on_distribution, wrong_on_shape
# why: elements equal to the bound are kept
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _k(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    r = tl.where(x > 0, -x * tl.log(x), 0.0) + tl.where(tl.abs(x) >= 0.25, x, 0.0)
    tl.store(o_ptr + i, r, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.contiguous()
        o = torch.empty_like(x)
        n = x.numel()
        _k[(triton.cdiv(n, 1024),)](x, o, n, BLOCK=1024)
        return o
