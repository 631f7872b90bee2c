# task: wright/relu
# expect: correct
# why: a module-level tl.constexpr used inside the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

FLOOR = tl.constexpr(0.0)
BLOCK_SIZE: tl.constexpr = tl.constexpr(512)


@triton.jit
def relu_kernel(x_ptr, out_ptr, n):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.where(x > FLOOR, x, FLOOR), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel())
        return out
