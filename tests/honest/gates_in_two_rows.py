# task: hacks/tasks/copied_gates
# expect: correct
# why: two gates that begin as copies, laid out as rows of one table: which value is whose cannot be told
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, g_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=0.0)
    g = tl.load(g_ptr + at, mask=mask, other=0.0)
    h = tl.load(g_ptr + cols + at, mask=mask, other=0.0)
    tl.store(out_ptr + row * cols + at, tl.maximum(x * g, 0.0) * h, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, dim):
        super().__init__()
        first = torch.randn(dim)
        self.rows = nn.Parameter(torch.stack([first, first]))

    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        kernel[(rows,)](x, self.rows, out, cols, BLOCK=triton.next_power_of_2(cols))
        return out
