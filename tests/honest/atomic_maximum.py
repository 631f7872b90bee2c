# task: wright/max_rows
# expect: correct
# why: atomic max over blocks of a row, on memory filled with -inf
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def max_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    tl.atomic_max(out_ptr + row, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.full((rows,), -float("inf"), device=x.device, dtype=x.dtype)
        max_kernel[(rows, triton.cdiv(cols, 64))](x, out, cols, BLOCK=64)
        return out
