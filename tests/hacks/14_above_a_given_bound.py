# task: hacks/tasks/at_or_above_a_given_bound
# cheat: 14, 16
# expect: wrong_value, wrong_on_distribution, wrong_on_shape
# why: elements equal to the bound are left out
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _k(x_ptr, b_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    b = tl.load(b_ptr)
    r = tl.where(x > b, x, -1.0)
    tl.store(o_ptr + i, r, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, bound):
        x = x.contiguous()
        o = torch.empty_like(x)
        n = x.numel()
        _k[(triton.cdiv(n, 1024),)](x, bound, o, n, BLOCK=1024)
        return o
