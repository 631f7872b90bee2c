# task: wright/softmax_rows
# expect: correct
# why: programs take rows in another order: places are no increasing function of the program's number
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    half = rows // 2
    row = tl.where(pid < half, half - 1 - pid, pid)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, cols = x.shape
        kernel[(rows,)](x, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
