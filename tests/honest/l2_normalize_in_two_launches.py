# task: wright/l2_normalize
# expect: correct
# why: norms by one kernel, division by another
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def norm_kernel(x_ptr, norm_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    tl.store(norm_ptr + row, tl.maximum(tl.sqrt(tl.sum(x * x, axis=0)), 1e-12))


@triton.jit
def divide_kernel(x_ptr, norm_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, x / tl.load(norm_ptr + at // cols, mask=at < n, other=1.0), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        norms = torch.empty(rows, device=x.device)
        out = torch.empty_like(x)
        norm_kernel[(rows,)](x, norms, cols, BLOCK=triton.next_power_of_2(cols))
        divide_kernel[(triton.cdiv(x.numel(), 512),)](x, norms, out, x.numel(), cols, BLOCK=512)
        return out
