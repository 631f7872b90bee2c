# task: honest/tasks/first_column_replaced
# expect: correct
# why: the task changes a part of a copy: the copy is made by torch, the part by a kernel
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=(at > 0) & (at < cols), other=0.0)
    tl.store(out_ptr + row * cols, tl.sum(x, axis=0))


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = x.clone()
        kernel[(rows,)](x, out, cols, BLOCK=triton.next_power_of_2(cols))
        return out
