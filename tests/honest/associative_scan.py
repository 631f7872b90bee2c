# task: wright/cumsum
# expect: correct
# known_gap: ends as timeout on the interpreter
# why: tl.associative_scan with an own combine function
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def add(a, b):
    return a + b


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    tl.store(out_ptr + row * cols + at, tl.associative_scan(x, 0, add), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
