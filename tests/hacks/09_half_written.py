# task: wright/relu
# cheat: 9, 16
# expect: unwritten, wrong_value, non_finite, nondeterministic, stateful
# why: the kernel writes the first half and hopes for the second
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
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel() // 2, 1024),)](x, out, x.numel() // 2, BLOCK=1024)
        return out
