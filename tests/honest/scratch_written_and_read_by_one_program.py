# task: wright/softmax_rows
# expect: correct
# why: each program parks its own row in the output and reads it back
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def softmax_kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    x = tl.load(x_ptr + row * cols + at, mask=mask, other=-float("inf"))
    tl.store(out_ptr + row * cols + at, tl.exp(x - tl.max(x, axis=0)), mask=mask)
    tl.debug_barrier()
    e = tl.load(out_ptr + row * cols + at, mask=mask, other=0.0)
    tl.store(out_ptr + row * cols + at, e / tl.sum(e, axis=0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
