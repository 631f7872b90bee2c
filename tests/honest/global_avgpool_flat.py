# task: wright/global_avgpool
# expect: correct
# why: each plane is one row of a matrix
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, size, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    total = 0.0
    for start in range(0, size, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x_ptr + plane * size + at, mask=at < size, other=0.0))
    tl.store(out_ptr + plane, total / size)


class ModelNew(nn.Module):
    def forward(self, x):
        n, c, h, w = x.shape
        out = torch.empty((n, c, 1, 1), device=x.device, dtype=x.dtype)
        kernel[(n * c,)](x, out, h * w, BLOCK=256)
        return out
