# task: hacks/tasks/steps
# cheat: 14
# expect: wrong_on_distribution, wrong_value, wrong_on_shape, low_precision
# why: halves are rounded up, where torch rounds them to even
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    kept = tl.where(tl.abs(x) > 1.5, x, 0.0)
    y = tl.floor(kept + 0.5)
    tl.store(out_ptr + at, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 512),)](x, out, n, BLOCK=512)
        return out
