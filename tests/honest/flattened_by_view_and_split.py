# task: wright/relu
# expect: correct
# why: the rows are split in two, each half has its own launch
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
        half = x.shape[0] // 2
        for source, target in zip(x.split([half, x.shape[0] - half]), out.tensor_split([half])):
            n = source.numel()
            relu_kernel[(triton.cdiv(n, 1024),)](source, target, n, BLOCK=1024)
        return out
