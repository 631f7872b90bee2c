# task: wright/silu
# expect: correct
# why: casts to the element type of the output's pointer
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    if x_ptr.dtype.element_ty != tl.float32:
        x = x.to(tl.float32)
    y = x * tl.sigmoid(x)
    tl.store(y_ptr + i, y.to(y_ptr.type.element_ty), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
