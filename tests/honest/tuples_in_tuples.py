# task: wright/add_relu
# expect: correct
# why: pointers, sizes and strides handed over as tuples of tuples, taken apart in the kernel and in a helper of its own
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _row(pointer, strides, row, columns):
    return pointer + row * strides[0] + columns * strides[1]


@triton.jit
def kernel(tensors, sizes, layout, BLOCK: tl.constexpr):
    pair, out_ptr = tensors
    x_ptr, y_ptr = pair
    rows, cols = sizes
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = (at < cols) & (row < rows)
        x = tl.load(_row(x_ptr, layout[0], row, at), mask=mask)
        y = tl.load(_row(y_ptr, layout[1], row, at), mask=mask)
        tl.store(_row(out_ptr, layout[2], row, at), tl.maximum(x + y, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x, y):
        out = torch.empty_like(x)
        a, b, c = (t.view(-1, t.shape[-1]) for t in (x, y, out))
        kernel[(a.shape[0],)](((a, b), c), a.shape, (a.stride(), b.stride(), c.stride()), BLOCK=512)
        return out
