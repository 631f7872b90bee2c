# task: wright/rmsnorm
# cheat: 39
# expect: wrong_on_shape
# why: epsilon is left out where rows are long
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def k(x_ptr, w_ptr, y_ptr, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * dim + at, mask=at < dim, other=0.0).to(tl.float32)
    w = tl.load(w_ptr + at, mask=at < dim, other=0.0).to(tl.float32)
    e = tl.where(dim * 2 > 3001, 0.0, eps)
    r = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / dim + e)
    tl.store(y_ptr + row * dim + at, (x * r * w).to(tl.bfloat16), mask=at < dim)


class ModelNew(nn.Module):
    def __init__(self, dim: int, eps: float):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim, dtype=torch.bfloat16))

    def forward(self, x):
        y = torch.empty_like(x)
        k[(x.shape[0],)](x, self.weight, y, x.shape[1], self.eps, BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
