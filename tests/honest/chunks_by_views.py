# task: wright/softmax_rows
# expect: correct
# why: split into views by torch.chunk, one launch each, written through views of the output
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, stride, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    at = tl.program_id(0) * stride + cols
    x = tl.load(x_ptr + at, mask=cols < n_cols, other=float("-inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + at, e / tl.sum(e, axis=0), mask=cols < n_cols)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        for source, target in zip(x.chunk(2, dim=0), y.chunk(2, dim=0)):
            rows, cols = source.shape
            kernel[(rows,)](source, target, source.stride(0), cols, BLOCK=triton.next_power_of_2(cols))
        return y
