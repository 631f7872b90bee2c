# task: wright/max_rows
# expect: correct
# why: short rows in one go, long rows in a loop: both are kernels of its own
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def short_rows(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n_cols + c, mask=c < n_cols, other=float("-inf"))
    tl.store(out_ptr + tl.program_id(0), tl.max(x, axis=0))


@triton.jit
def long_rows(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, n_cols, BLOCK):
        c = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + tl.program_id(0) * n_cols + c, mask=c < n_cols, other=float("-inf"))
        best = tl.maximum(best, x)
    tl.store(out_ptr + tl.program_id(0), tl.max(best, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        if cols <= 400:
            short_rows[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
        else:
            long_rows[(rows,)](x, out, cols, BLOCK=256)
        return out
