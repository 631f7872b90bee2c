# task: wright/cumsum_masked
# expect: correct
# why: the mask goes in as bytes and is compared with zero
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, m_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
        keep = tl.load(m_ptr + row * cols + at, mask=at < cols, other=0) > 0
        x = tl.where(keep, x, 0.0)
        tl.store(out_ptr + row * cols + at, carry + tl.cumsum(x, axis=0), mask=at < cols)
        carry += tl.sum(x, axis=0)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, mask.view(torch.int8), out, x.shape[1], BLOCK=128)
        return out
