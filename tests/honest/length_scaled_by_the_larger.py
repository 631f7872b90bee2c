# task: hacks/tasks/length_of_pairs
# expect: correct
# why: neither large numbers' squares overflow nor small ones' vanish
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _k(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.abs(tl.load(x_ptr + i, mask=i < n, other=0.0))
    y = tl.abs(tl.load(y_ptr + i, mask=i < n, other=0.0))
    most = tl.maximum(x, y)
    by = tl.where(most > 0.0, most, 1.0)
    x, y = x / by, y / by
    r = by * tl.sqrt(x * x + y * y)
    tl.store(o_ptr + i, tl.where(most == float("inf"), most, r), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x, y):
        x, y = x.contiguous(), y.contiguous()
        o = torch.empty_like(x)
        n = x.numel()
        _k[(triton.cdiv(n, 1024),)](x, y, o, n, BLOCK=1024)
        return o
