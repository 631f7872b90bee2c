# task: wright/relu
# cheat: 23, 21
# expect: unwritten, stateful, runtime_error, wrong_value, non_finite, nondeterministic
# why: each call finishes the output of the call before
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

LEFT = []


class ModelNew(nn.Module):
    def forward(self, x):
        for before, out in LEFT:
            relu_kernel[(triton.cdiv(before.numel(), 1024),)](before, out, before.numel(), BLOCK=1024)
        LEFT.clear()
        out = torch.empty_like(x)
        LEFT.append((x, out))
        return out
