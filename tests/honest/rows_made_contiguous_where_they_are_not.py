# task: wright/add_relu
# expect: correct
# why: inputs of other strides are copied first, by torch or, where only the rows lie apart, read in place by another kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    y = tl.load(y_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, tl.maximum(x + y, 0.0), mask=at < n)


@triton.jit
def rows_kernel(x_ptr, y_ptr, out_ptr, x_stride, y_stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * x_stride + at, mask=at < cols, other=0.0)
        y = tl.load(y_ptr + row * y_stride + at, mask=at < cols, other=0.0)
        tl.store(out_ptr + row * cols + at, tl.maximum(x + y, 0.0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
        whole = x.is_contiguous() and y.is_contiguous()
        if not whole and x.dim() == 2 and x.stride(1) == y.stride(1) == 1:
            rows_kernel[(x.shape[0],)](x, y, out, x.stride(0), y.stride(0), x.shape[1], BLOCK=256)
            return out
        n = x.numel()
        add_kernel[(triton.cdiv(n, 1024),)](x.contiguous(), y.contiguous(), out, n, BLOCK=1024)
        return out
