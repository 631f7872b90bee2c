# task: wright/rmsnorm
# expect: correct
# why: bfloat16 in and out, float32 inside the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, w_ptr, y_ptr, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    mask = at < dim
    x = tl.load(x_ptr + row * dim + at, mask=mask, other=0.0).to(tl.float32)
    scale = tl.math.rsqrt(tl.sum(x * x, axis=0) / dim + eps)
    w = tl.load(w_ptr + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + row * dim + at, (x * scale * w).to(y_ptr.dtype.element_ty), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(dim).to(torch.bfloat16) + 0.5)

    def forward(self, x):
        dim = x.shape[-1]
        y = torch.empty_like(x)
        kernel[(x.numel() // dim,)](x, self.weight, y, dim, self.eps, BLOCK=triton.next_power_of_2(dim))
        return y
