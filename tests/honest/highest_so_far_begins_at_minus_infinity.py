# task: hacks/tasks/highest_so_far
# expect: correct
# why: a running maximum by blocks that begins below all numbers
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def kernel(x_ptr, out_ptr, steps, cols, STEPS: tl.constexpr, COLS: tl.constexpr):
    c = tl.program_id(1) * COLS + tl.arange(0, COLS)
    top = tl.full((COLS,), -float("inf"), tl.float32)
    for start in range(0, steps, STEPS):
        t = start + tl.arange(0, STEPS)
        mask = (t[:, None] < steps) & (c[None, :] < cols)
        at = tl.program_id(0) * steps * cols + t[:, None] * cols + c[None, :]
        x = tl.load(x_ptr + at, mask=mask, other=-float("inf"))
        y = tl.maximum(tl.associative_scan(x, 0, larger), top[None, :])
        tl.store(out_ptr + at, y, mask=mask)
        top = tl.max(y, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, steps, cols = x.shape
        kernel[(rows, triton.cdiv(cols, 64))](x, out, steps, cols, STEPS=32, COLS=64)
        return out
