# task: wright/residual_rmsnorm
# expect: correct
# why: two outputs from one kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, r_ptr, w_ptr, y_ptr, h_ptr, dim, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < dim
    h = tl.load(x_ptr + row * dim + at, mask=mask, other=0.0) + tl.load(r_ptr + row * dim + at, mask=mask, other=0.0)
    tl.store(h_ptr + row * dim + at, h, mask=mask)
    scale = tl.rsqrt(tl.sum(h * h, axis=0) / dim + eps)
    tl.store(y_ptr + row * dim + at, h * scale * tl.load(w_ptr + at, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.rand(dim) + 0.5)

    def forward(self, x, residual):
        outputs = tuple(torch.empty_like(x) for _ in range(2))
        kernel[(x.shape[0],)](
            x, residual, self.weight, *outputs, x.shape[1], self.eps, BLOCK=triton.next_power_of_2(x.shape[1])
        )
        return outputs
