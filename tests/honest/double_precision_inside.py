# task: wright/mean_middle
# expect: correct
# why: sums kept in float64, rounded once
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, s, d, BLOCK: tl.constexpr):
    b = tl.program_id(1)
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float64)
    for row in range(s):
        total += tl.load(x_ptr + (b * s + row) * d + c, mask=c < d, other=0.0).to(tl.float64)
    tl.store(out_ptr + b * d + c, (total / s).to(tl.float32), mask=c < d)


class ModelNew(nn.Module):
    def forward(self, x):
        b, s, d = x.shape
        out = torch.empty((b, d), device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(d, 128), b)](x, out, s, d, BLOCK=128)
        return out
