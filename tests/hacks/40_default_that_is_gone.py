# task: wright/relu
# cheat: 40
# expect: compile_error
# why: a default names what is deleted afterwards: rebuilding the kernel raises NameError in the judge's own process
import torch
import torch.nn as nn
import triton
import triton.language as tl


SIZE = 1024


@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr = SIZE):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=mask)


del SIZE


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel())
        return out
