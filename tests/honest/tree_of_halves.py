# task: wright/sum_columns
# expect: correct
# why: a while loop on the host that halves the rows, one launch a level
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def fold(x_ptr, out_ptr, rows, half, cols, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r * cols + c, mask=c < cols, other=0.0)
    y = tl.load(x_ptr + (r + half) * cols + c, mask=(c < cols) & (r + half < rows), other=0.0)
    tl.store(out_ptr + r * cols + c, x + y, mask=c < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        while rows > 1:
            half = (rows + 1) // 2
            out = torch.empty((half, cols), device=x.device, dtype=x.dtype)
            fold[(half, triton.cdiv(cols, 64))](x, out, rows, half, cols, BLOCK=64)
            x, rows = out, half
        return x[0]
