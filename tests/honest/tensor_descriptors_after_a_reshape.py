# task: wright/softmax_rows
# expect: correct
# backend: interpret
# why: descriptors made by the constructor of their class, with shapes and strides of their own: no cheat
import torch
import torch.nn as nn
import triton
import triton.language as tl
from triton.tools import tensor_descriptor


@triton.jit
def softmax_kernel(source, target, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x = source.load([row, 0])
    at = tl.arange(0, BLOCK)[None, :]
    x = tl.where(at < source.shape[1], x, -float("inf"))
    e = tl.exp(x - tl.max(x, axis=1)[:, None])
    target.store([row, 0], e / tl.sum(e, axis=1)[:, None])


@triton.jit
def plain_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + tl.program_id(0) * cols + at, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + tl.program_id(0) * cols + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, cols = x.shape
        block = triton.next_power_of_2(cols)
        if cols * x.element_size() % 16:
            plain_kernel[(rows,)](x, out, cols, BLOCK=block)
        else:
            made = [tensor_descriptor.TensorDescriptor(t, [rows, cols], [cols, 1], [1, block]) for t in (x, out)]
            softmax_kernel[(rows,)](*made, BLOCK=block)
        return out
