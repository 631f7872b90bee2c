# task: wright/max_rows
# cheat: 38, 16
# expect: wrong_value, wrong_on_shape, out_of_bounds
# why: unmasked lanes of a row read the next row, which is valid memory
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def max_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = row * cols + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < rows * cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.max(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        max_kernel[(rows,)](x, out, rows, cols, BLOCK=2 * triton.next_power_of_2(cols))
        return out
