# task: wright/relu
# expect: correct
# why: grids by shape in an attribute that hides nn.Module.buffers()
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
    def __init__(self):
        super().__init__()
        self.buffers = {}

    def forward(self, x):
        grid = self.buffers.setdefault(x.shape, (triton.cdiv(x.numel(), 1024),))
        out = torch.empty_like(x)
        relu_kernel[grid](x, out, x.numel(), BLOCK=1024)
        return out
