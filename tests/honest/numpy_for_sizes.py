# task: wright/relu
# expect: correct
# why: numpy on shapes is no work on data
import numpy as np

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
        n = int(np.prod(x.shape))
        block = 1 << int(np.log2(1024))
        relu_kernel[(int(np.ceil(n / block)),)](x, out, n, BLOCK=block)
        return out
