# task: wright/relu
# cheat: 18
# expect: wrong_on_shape, unwritten, out_of_bounds
# why: the grid is that of the first call: a larger input later on keeps rows that nobody writes
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = None

    def forward(self, x):
        if self.grid is None:
            self.grid = (triton.cdiv(x.numel(), 64),)
        out = torch.empty_like(x)
        kernel[self.grid](x, out, x.numel(), BLOCK=64)
        return out
