# task: hacks/tasks/dropout_by_given_numbers
# cheat: 14
# expect: wrong_value, wrong_on_shape, wrong_on_distribution
# why: neighbours share a random number, so they are kept or dropped together
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _k(x_ptr, s_ptr, o_ptr, n, p, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    keep = tl.load(s_ptr + i // 2 * 2, mask=i < n, other=0.0) >= p
    tl.store(o_ptr + i, tl.where(keep, tl.maximum(x, 0.0) / (1.0 - p), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, numbers):
        x, numbers = x.contiguous(), numbers.contiguous()
        o = torch.empty_like(x)
        _k[(triton.cdiv(x.numel(), 1024),)](x, numbers, o, x.numel(), 0.25, BLOCK=1024)
        return o
