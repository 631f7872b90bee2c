# task: wright/max_rows
# expect: correct
# why: tl.reduce with an own combine function
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    tl.store(out_ptr + row, tl.reduce(x, 0, larger))


class ModelNew(nn.Module):
    def forward(self, x):
        out = x.new_empty((x.shape[0],))
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
