# task: wright/relu
# expect: correct
# max_speedup: 2.0
# why: a list as long as a row, computed and uploaded anew by each call: launches wait for Python
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_kernel(x_ptr, scale_ptr, out_ptr, n, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    scale = tl.load(scale_ptr + offsets % columns, mask=mask)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0) * scale, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        scale = torch.tensor([1.0 + 0.0 * column for column in range(x.shape[1])], device=x.device)
        out = torch.empty_like(x)
        scaled_kernel[(triton.cdiv(x.numel(), 1024),)](x, scale, out, x.numel(), x.shape[1], BLOCK=1024)
        return out
