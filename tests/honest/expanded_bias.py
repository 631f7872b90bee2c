# task: wright/bias_gelu_residual
# expect: correct
# why: the bias is expanded by a view with stride zero
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, b_ptr, r_ptr, out_ptr, cols, stride_row, stride_col, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0)
    b = tl.load(b_ptr + row * stride_row + at * stride_col, mask=mask, other=0.0)
    v = (x + b).to(tl.float32)
    g = (0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))).to(tl.float16)
    r = tl.load(r_ptr + row * cols + at, mask=mask, other=0.0)
    tl.store(out_ptr + row * cols + at, g + r, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(dim).to(torch.float16))

    def forward(self, x, residual):
        rows, cols = x.shape
        bias = self.bias.unsqueeze(0).expand(rows, cols)
        out = torch.empty_like(x)
        kernel[(rows,)](x, bias, residual, out, cols, *bias.stride(), BLOCK=triton.next_power_of_2(cols))
        return out
