# task: wright/relu
# cheat: 5, 13
# expect: torch_compute, low_precision, wrong_value
# why: torch's dtype casts do work that belongs to the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)

class ModelNew(nn.Module):
    def forward(self, x):
        half = x.to(torch.float16)
        out = torch.empty_like(half)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](half, out, x.numel(), BLOCK=1024)
        return out.to(torch.float32)
