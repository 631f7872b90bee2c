# task: wright/relu
# expect: correct
# why: functools.partial and operator-free plumbing around the launch
import functools
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)


def launch(x, block):
    out = torch.empty_like(x)
    kernel[(math.ceil(x.numel() / block),)](x, out, math.prod(x.shape), BLOCK=block)
    return out


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.launch = functools.partial(launch, block=256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.launch(x)
