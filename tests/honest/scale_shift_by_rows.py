# task: wright/scale_shift_tanh
# expect: correct
# why: tanh by exponentials, parameters loaded once per column block
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, s_ptr, b_ptr, y_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(s_ptr + c, mask=c < cols, other=0.0)
    b = tl.load(b_ptr + c, mask=c < cols, other=0.0)
    for step in range(ROWS):
        row = tl.program_id(1) * ROWS + step
        mask = (c < cols) & (row < rows)
        v = tl.load(x_ptr + row * cols + c, mask=mask, other=0.0) * s + b
        e = tl.exp(-2.0 * tl.abs(v))
        t = (1.0 - e) / (1.0 + e)
        tl.store(y_ptr + row * cols + c, tl.where(v < 0, -t, t), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(dim) + 0.5)
        self.shift = nn.Parameter(torch.randn(dim) * 0.5)

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        kernel[(triton.cdiv(cols, 128), triton.cdiv(rows, 4))](x, self.scale, self.shift, y, rows, cols, ROWS=4, BLOCK=128)
        return y
