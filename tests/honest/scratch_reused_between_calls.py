# task: wright/softmax_rows
# expect: correct
# why: a workspace is kept from call to call; its contents are never trusted
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def exp_kernel(x_ptr, e_ptr, total_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(e_ptr + row * cols + at, e, mask=at < cols)
    tl.store(total_ptr + row, tl.sum(e, axis=0))


@triton.jit
def divide_kernel(e_ptr, total_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    e = tl.load(e_ptr + row * cols + at, mask=at < cols)
    tl.store(out_ptr + row * cols + at, e / tl.load(total_ptr + row), mask=at < cols)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.scratch = {}

    def forward(self, x):
        rows, cols = x.shape
        if (rows, cols) not in self.scratch:
            self.scratch[rows, cols] = (torch.empty_like(x), torch.empty(rows, device=x.device))
        e, total = self.scratch[rows, cols]
        out = torch.empty_like(x)
        block = triton.next_power_of_2(cols)
        exp_kernel[(rows,)](x, e, total, cols, BLOCK=block)
        divide_kernel[(rows,)](e, total, out, cols, BLOCK=block)
        return out
