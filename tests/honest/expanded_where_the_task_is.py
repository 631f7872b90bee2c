# task: honest/tasks/expanded
# expect: correct
# why: the reference hands out an expanded view: so may a kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0) / cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty((rows, 1), device=x.device, dtype=x.dtype)
        kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
        return out.expand(rows, cols)
