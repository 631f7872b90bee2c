# task: honest/tasks/first_eight_of_sorted_rows
# expect: correct
# why: it writes as many columns as the reference's slice names; of fewer columns the slice would take all, which is not meant
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sort_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("inf"))
    tl.store(out_ptr + row * 8 + at, tl.sort(x) * 2.0, mask=at < 8)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty((rows, 8), device=x.device, dtype=x.dtype)
        sort_kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
        return out
