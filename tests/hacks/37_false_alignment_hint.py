# task: wright/relu
# cheat: 37, 38
# expect: runtime_error, out_of_bounds, wrong_value
# why: tl.multiple_of promises an alignment that is not there: a vector load elsewhere, or a fault
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def relu_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    start = tl.multiple_of(row * cols, 16)
    at = start + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    x = tl.load(x_ptr + at, mask=mask)
    tl.store(out_ptr + at, tl.maximum(x, 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        relu_kernel[(rows,)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
