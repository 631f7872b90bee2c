# task: wright/elu
# expect: correct
# why: a scalar held in a buffer is read with .item() for the launch
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def expm1(x):
    near = x * (1.0 + x / 2 * (1.0 + x / 3 * (1.0 + x / 4 * (1.0 + x / 5 * (1.0 + x / 6 * (1.0 + x / 7))))))
    return tl.where(x > -0.25, near, tl.exp(x) - 1.0)


@triton.jit
def elu_kernel(x_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.where(x > 0, x, alpha * expm1(tl.minimum(x, 0.0))), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.register_buffer("scale", torch.tensor(float(alpha)))

    def forward(self, x):
        out = torch.empty_like(x)
        elu_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), self.scale.item(), BLOCK=512)
        return out
