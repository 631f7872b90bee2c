# task: wright/relu
# expect: correct
# why: ternaries, chained comparisons, min and max of Python inside the kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n, SLOPE: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    first = pid * BLOCK
    size = min(BLOCK, max(n - first, 0))
    lane = tl.arange(0, BLOCK)
    inside = (lane >= 0) & (lane < size)
    x = tl.load(x_ptr + first + lane, mask=inside, other=0.0)
    y = tl.maximum(x, 0.0) if SLOPE == 0 else tl.where(x > 0, x, SLOPE * x)
    tl.store(out_ptr + first + lane, y, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[(triton.cdiv(n, 256),)](x, out, n, SLOPE=0, BLOCK=256)
        return out
