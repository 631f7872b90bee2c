# task: wright/max_rows
# expect: correct
# why: tl.sort on the row, and the last element of it
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    best = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, n_cols, BLOCK):
        x = tl.load(x_ptr + tl.program_id(0) * n_cols + start + c, mask=start + c < n_cols, other=float("-inf"))
        best = tl.maximum(best, x)
    ordered = tl.sort(best)
    tl.store(out_ptr + tl.program_id(0) + c * 0, tl.sum(tl.where(c == BLOCK - 1, ordered, 0.0), axis=0), mask=c == 0)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        kernel[(rows,)](x, out, cols, BLOCK=32)
        return out
