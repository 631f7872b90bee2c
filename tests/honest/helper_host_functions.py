# task: wright/elu
# expect: correct
# why: the launch stands in a free function with defaults and annotations
from typing import Optional

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


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def elu(x: torch.Tensor, alpha: float = 1.0, out: Optional[torch.Tensor] = None) -> torch.Tensor:
    assert x.is_cuda, "needs a GPU tensor"
    out = torch.empty_like(x) if out is None else out
    n = x.numel()
    elu_kernel[(_ceil(n, 256),)](x, out, n, float(alpha), BLOCK=256)
    return out


class ModelNew(nn.Module):
    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.alpha = alpha

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return elu(x, alpha=self.alpha)
