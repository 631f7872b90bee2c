# task: wright/residual_rmsnorm
# expect: correct
# why: three launches in a row, the middle one in place on an own buffer
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_kernel(x_ptr, r_ptr, h_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(h_ptr + at, tl.load(x_ptr + at, mask=at < n) + tl.load(r_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def scale_kernel(h_ptr, y_ptr, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    h = tl.load(h_ptr + row * dim + at, mask=at < dim, other=0.0)
    tl.store(y_ptr + row * dim + at, h / tl.sqrt(tl.sum(h * h, axis=0) / dim + eps), mask=at < dim)


@triton.jit
def weight_kernel(y_ptr, w_ptr, n, dim, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    y = tl.load(y_ptr + at, mask=at < n)
    tl.store(y_ptr + at, y * tl.load(w_ptr + at % dim, mask=at < n), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x, residual):
        rows, dim = x.shape
        n = x.numel()
        hidden, normed = torch.empty_like(x), torch.empty_like(x)
        blocks = (triton.cdiv(n, 256),)
        add_kernel[blocks](x, residual, hidden, n, BLOCK=256)
        scale_kernel[(rows,)](hidden, normed, dim, self.eps, BLOCK=triton.next_power_of_2(dim))
        weight_kernel[blocks](normed, self.weight, n, dim, BLOCK=256)
        return normed, hidden
