# task: wright/sum_columns
# cheat: 17
# expect: nondeterministic
# why: each program reads the sums by one atomic operation and writes them by another: who comes between is lost
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * CHUNK
    for row in range(first, tl.minimum(first + CHUNK, rows)):
        total += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    so_far = tl.atomic_add(out_ptr + at, tl.zeros((BLOCK,), tl.float32), mask=at < cols)
    tl.atomic_xchg(out_ptr + at, so_far + total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.zeros(cols, device=x.device, dtype=x.dtype)
        sum_kernel[(triton.cdiv(rows, 16),)](x, out, rows, cols, CHUNK=16, BLOCK=triton.next_power_of_2(cols))
        return out
