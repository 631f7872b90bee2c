# task: wright/softmax_rows
# expect: correct
# why: raises with f-strings for what it does not support
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + cols, mask=cols < n_cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + tl.program_id(0) * n_cols + cols, e / tl.sum(e, 0), mask=cols < n_cols)


LIMIT = 65536


class ModelNew(nn.Module):
    def forward(self, x):
        if x.dim() != 2:
            raise ValueError(f"expected a matrix, got {x.dim()} dimensions: {tuple(x.shape)}")
        rows, cols = x.shape
        block = triton.next_power_of_2(cols)
        if block > LIMIT:
            raise NotImplementedError(f"{cols=} needs a block of {block:,}, over {LIMIT:,}")
        if not x.is_contiguous():
            raise RuntimeError(f"stride {x.stride()} of {type(x).__name__}; call .contiguous() first")
        y = torch.empty_like(x)
        kernel[(rows,)](x, y, cols, BLOCK=block)
        return y
