# task: wright/rmsnorm
# expect: correct
# why: long rows go through another kernel, in blocks and twice
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def short_rows(x_ptr, w_ptr, y_ptr, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * dim + at, mask=at < dim, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=at < dim, other=0.0).to(tl.float32)
    r = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / dim + eps)
    tl.store(y_ptr + row * dim + at, (x * r * w).to(tl.bfloat16), mask=at < dim)


@triton.jit
def long_rows(x_ptr, w_ptr, y_ptr, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, dim, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * dim + at, mask=at < dim, other=0.0).to(tl.float32)
        acc += x * x
    r = 1.0 / tl.sqrt(tl.sum(acc, axis=0) / dim + eps)
    for start in range(0, dim, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * dim + at, mask=at < dim, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + at, mask=at < dim, other=0.0).to(tl.float32)
        tl.store(y_ptr + row * dim + at, (x * r * w).to(tl.bfloat16), mask=at < dim)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.bfloat16))

    def forward(self, x):
        rows, dim = x.shape
        y = torch.empty_like(x)
        if dim >> 11:
            long_rows[(rows,)](x, self.weight, y, dim, self.eps, BLOCK=1024)
        else:
            short_rows[(rows,)](x, self.weight, y, dim, self.eps, BLOCK=triton.next_power_of_2(dim))
        return y
