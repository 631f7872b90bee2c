# task: wright/relu
# expect: correct
# why: num_warps, num_stages, num_ctas and maxnreg are the launch's own
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr = 512):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.maximum(tl.load(x_ptr + i, mask=i < n), 0.0), mask=i < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        options = {"num_warps": 2, "num_stages": 1, "num_ctas": 1, "maxnreg": 128}
        kernel[(triton.cdiv(x.numel(), 512), 1, 1)](x, out, x.numel(), **options)
        return out
