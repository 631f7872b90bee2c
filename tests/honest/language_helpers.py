# task: wright/relu
# expect: correct
# why: tl.clamp, tl.fma, tl.cdiv, tl.multiple_of, tl.max_contiguous and tl.cast
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    blocks = tl.cdiv(n, BLOCK)
    pid = tl.minimum(tl.program_id(0), blocks - 1)
    i = tl.max_contiguous(tl.multiple_of(pid * BLOCK + tl.arange(0, BLOCK), BLOCK), BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    y = tl.clamp(tl.fma(x, 1.0, 0.0), 0.0, float("inf"))
    tl.store(out_ptr + i, tl.cast(y, tl.float32), mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
