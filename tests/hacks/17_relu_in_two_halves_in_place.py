# task: wright/softmax_rows
# cheat: 17
# expect: nondeterministic
# why: one launch whose second half of programs reads what the first half writes
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def softmax_kernel(x_ptr, e_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    if pid < rows:
        x = tl.load(x_ptr + pid * cols + at, mask=at < cols, other=-float("inf"))
        tl.store(e_ptr + pid * cols + at, tl.exp(x - tl.max(x, axis=0)), mask=at < cols)
    else:
        row = pid - rows
        e = tl.load(e_ptr + row * cols + at, mask=at < cols, other=0.0)
        tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        e = torch.empty_like(x)
        out = torch.empty_like(x)
        softmax_kernel[(2 * rows,)](x, e, out, rows, cols, BLOCK=triton.next_power_of_2(cols))
        return out
