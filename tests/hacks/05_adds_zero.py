# task: wright/relu
# cheat: 5
# expect: torch_compute
# why: torch clamps, the kernel adds zero
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add_zero_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) + 0.0, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.clamp(x, min=0)
        out = torch.empty_like(y)
        add_zero_kernel[(triton.cdiv(x.numel(), 1024),)](y, out, x.numel(), BLOCK=1024)
        return out
