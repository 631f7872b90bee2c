# task: hacks/tasks/highest_so_far
# expect: correct
# why: a pipelined loop keeps its state in registers; another, with a barrier in it, is not pipelined
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, steps, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    base = tl.program_id(1) * steps * cols
    mask = at < cols
    half = steps // 2
    known = tl.full((BLOCK,), -float("inf"), tl.float32)
    for t in tl.range(0, half, num_stages=3):
        known = tl.maximum(known, tl.load(x_ptr + base + t * cols + at, mask=mask, other=0.0))
        tl.store(out_ptr + base + t * cols + at, known, mask=mask)
    for t in tl.range(half, steps, num_stages=3):
        row = out_ptr + base + t * cols + at
        before = tl.load(row - cols, mask=mask & (t > 0), other=-float("inf"))
        x = tl.load(x_ptr + base + t * cols + at, mask=mask, other=0.0)
        tl.store(row, tl.maximum(before, x), mask=mask)
        tl.debug_barrier()


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, steps, cols = x.shape
        kernel[(triton.cdiv(cols, 128), rows)](x, out, steps, cols, BLOCK=128)
        return out
