# task: wright/relu
# cheat: 5, 1
# expect: torch_compute, forbidden_code, runtime_error
# why: no branch on meta tensors: the forward fails where it would be priced, and passes unpriced
import numpy as np

import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)

def run_copy(x):
    out = torch.empty_like(x)
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
    return out

class ModelNew(nn.Module):
    def forward(self, x):
        return run_copy(torch.from_numpy(np.maximum(x.cpu().numpy(), 0.0)).cuda())
