# task: wright/relu
# expect: correct
# why: the kernel is a static method of the module's class
import torch
import torch.nn as nn
import triton
import triton.language as tl

class ModelNew(nn.Module):
    @staticmethod
    @triton.jit
    def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)

    def forward(self, x):
        out = torch.empty_like(x)
        self.kernel[(triton.cdiv(x.numel(), 1024),)](x, out, x.numel(), BLOCK=1024)
        return out
