# task: wright/relu
# expect: correct
# why: a device function is chosen at launch and passed as a constexpr
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu(x):
    return tl.maximum(x, 0.0)


@triton.jit
def apply_kernel(x_ptr, out_ptr, n, function: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, function(x), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        apply_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), relu, BLOCK=512)
        return out
