# task: wright/relu
# expect: correct
# why: tl.static_print at compile time, constexpr flags with defaults
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, VERBOSE: tl.constexpr = False, BLOCK: tl.constexpr = 1024):
    if VERBOSE:
        tl.static_print("block", BLOCK)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)

class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
