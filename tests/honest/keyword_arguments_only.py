# task: wright/relu
# expect: correct
# why: every kernel argument is passed by keyword
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        options = dict(num_warps=4, num_stages=2)
        relu_kernel[(triton.cdiv(x.numel(), 1024), 1, 1)](x_ptr=x, out_ptr=out, n=x.numel(), BLOCK=1024, **options)
        return out
