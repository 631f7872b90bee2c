# task: wright/cumsum_masked
# expect: correct
# why: the mask is viewed as uint8 before the launch
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, m_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=inside, other=0.0)
    keep = tl.load(m_ptr + row * cols + at, mask=inside, other=0).to(tl.float32)
    tl.store(out_ptr + row * cols + at, tl.cumsum(x * keep, axis=0), mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, mask.view(torch.uint8), out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
