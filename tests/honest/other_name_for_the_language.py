# task: wright/relu
# expect: correct
# why: `import triton.language as L`, and the full path
import torch
import torch.nn as nn
import triton
import triton.language as L

@triton.jit
def relu_kernel(x_ptr, out_ptr, n, BLOCK: L.constexpr):
    at = L.program_id(axis=0) * BLOCK + triton.language.arange(0, BLOCK)
    L.store(out_ptr + at, L.maximum(L.load(x_ptr + at, mask=at < n), 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        relu_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out
