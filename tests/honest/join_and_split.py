# task: wright/relu
# expect: correct
# why: pairs of elements taken apart and interleaved again
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    even, odd = tl.split(tl.reshape(x, (BLOCK // 2, 2)))
    y = tl.interleave(tl.maximum(even, 0.0), tl.maximum(odd, 0.0))
    tl.store(out_ptr + i, y, mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
