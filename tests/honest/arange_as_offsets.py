# task: wright/relu
# expect: correct
# why: torch.arange makes an index table, which is allocation
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = tl.load(index_ptr + at, mask=at < n, other=0)
    x = tl.load(x_ptr + index, mask=at < n)
    tl.store(out_ptr + index, tl.maximum(x, 0.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        index = torch.arange(0, x.numel(), device=x.device, dtype=torch.int64)
        kernel[(triton.cdiv(x.numel(), 512),)](x, index, out, x.numel(), BLOCK=512)
        return out
