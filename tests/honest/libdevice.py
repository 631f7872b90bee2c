# task: wright/scale_shift_tanh
# expect: correct
# why: tanh from libdevice
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(x_ptr, s_ptr, b_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    s = tl.load(s_ptr + at % cols, mask=mask, other=0.0)
    b = tl.load(b_ptr + at % cols, mask=mask, other=0.0)
    tl.store(out_ptr + at, libdevice.tanh(x * s + b), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(features) + 0.5)
        self.shift = nn.Parameter(torch.randn(features))

    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 256),)](x, self.scale, self.shift, out, x.numel(), x.shape[-1], BLOCK=256)
        return out
