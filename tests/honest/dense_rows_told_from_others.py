# task: wright/relu
# expect: correct
# why: dense rows have a kernel of their own, all others one that is given their strides
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def dense_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=at < n)


@triton.jit
def rows_kernel(x_ptr, out_ptr, cols, stride, step, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * stride + at * step, mask=at < cols)
        tl.store(out_ptr + row * cols + at, tl.maximum(x, 0.0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(rows, cols, device=x.device)
        if x.is_contiguous():
            dense_kernel[(triton.cdiv(rows * cols, 1024),)](x, out, rows * cols, BLOCK=1024)
        else:
            rows_kernel[(rows,)](x, out, cols, x.stride(0), x.stride(1), BLOCK=256)
        return out
