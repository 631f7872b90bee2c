# task: hacks/tasks/turned_by_a_number
# cheat: 14
# expect: wrong_on_shape, wrong_value, out_of_bounds
# why: right for the numbers that the task draws, and wrong for more than a turn, or one the other way
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn_kernel(x_ptr, out_ptr, cols, places, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    source = at - places
    source = tl.where(source < 0, source + cols, source)
    x = tl.load(x_ptr + row * cols + source, mask=(at < cols) & (source >= 0) & (source < cols), other=0.0)
    tl.store(out_ptr + row * cols + at, x, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x, places):
        out = torch.empty_like(x)
        rows, cols = x.shape
        turn_kernel[(rows, triton.cdiv(cols, 256))](x, out, cols, places, BLOCK=256)
        return out
