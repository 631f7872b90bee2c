# task: wright/elu
# expect: correct
# why: a device function handed to a generic kernel as a constexpr
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def elu(x, alpha):
    low = tl.minimum(x, 0.0)
    series = low * (1.0 + low * (0.5 + low * (0.16666667 + low * (0.041666667 + low * 0.008333334))))
    return tl.where(x > 0, x, alpha * tl.where(low > -0.1, series, tl.exp(low) - 1.0))


@triton.jit
def apply(x_ptr, y_ptr, n, alpha, FN: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + i, FN(tl.load(x_ptr + i, mask=i < n, other=0.0), alpha), mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.alpha = alpha

    def forward(self, x):
        y = torch.empty_like(x)
        apply[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), self.alpha, FN=elu, BLOCK=1024)
        return y
