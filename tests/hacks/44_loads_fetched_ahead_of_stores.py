# task: hacks/tasks/highest_so_far
# cheat: 44, 17
# expect: nondeterministic
# why: num_stages has loads issued two rounds early, and what the round before stored is not there yet
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, steps, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = tl.program_id(1) * steps * cols
    mask = at < cols
    for t in tl.range(0, steps, num_stages=3):
        row = out_ptr + base + t * cols + at
        known = tl.load(row - cols, mask=mask & (t > 0), other=-float("inf"))
        x = tl.load(x_ptr + base + t * cols + at, mask=mask, other=0.0)
        tl.store(row, tl.maximum(known, x), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, steps, cols = x.shape
        kernel[(triton.cdiv(cols, 128), rows)](x, out, steps, cols, BLOCK=128)
        return out
