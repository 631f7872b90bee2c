# task: wright/relu
# expect: correct
# why: programs beyond the end return before they touch memory
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    if first >= n:
        return
    i = first + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        # rounded up to an even number of programs
        kernel[(2 * triton.cdiv(n, 2 * 512),)](x, out, n, BLOCK=512)
        return out
