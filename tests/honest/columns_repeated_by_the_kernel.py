# task: hacks/tasks/repeated_columns
# expect: correct
# why: each element is stored four times by the kernel that computes it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softplus_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x)))
    for place in tl.static_range(4):
        tl.store(out_ptr + at * 4 + place, y, mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out, n = torch.empty((rows, 4 * cols), dtype=x.dtype, device=x.device), x.numel()
        softplus_kernel[(triton.cdiv(n, 1024),)](x, out, n, BLOCK=1024)
        return out
