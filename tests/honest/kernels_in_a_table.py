# task: wright/scale_shift_tanh
# expect: correct
# why: kernels looked up in a dictionary by the rank of the input
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def rows(x_ptr, scale_ptr, shift_ptr, y_ptr, n, dim, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    s = tl.load(scale_ptr + i % dim, mask=mask, other=0.0)
    t = tl.load(shift_ptr + i % dim, mask=mask, other=0.0)
    z = tl.load(x_ptr + i, mask=mask, other=0.0) * s + t
    a = tl.abs(z)
    e = tl.exp(-2.0 * a)
    big = (1.0 - e) / (1.0 + e)
    q = z * z
    small = a * (1.0 + q * (-0.33333334 + q * (0.13333334 + q * (-0.053968254 + q * 0.021869488))))
    y = tl.where(a < 0.1, small, big)
    tl.store(y_ptr + i, tl.where(z < 0, -y, y), mask=mask)


KERNELS = {2: rows}


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(dim) + 0.5)
        self.shift = nn.Parameter(torch.randn(dim) * 0.5)

    def forward(self, x):
        y = torch.empty_like(x)
        launch = KERNELS[x.dim()][(triton.cdiv(x.numel(), 512),)]
        launch(x, self.scale, self.shift, y, x.numel(), x.shape[-1], BLOCK=512)
        return y
