# task: wright/sum_columns
# cheat: 17
# expect: nondeterministic
# why: the lock is taken by an atomic and given back before the sum is written
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def sum_kernel(x_ptr, out_ptr, lock_ptr, rows, cols, CHUNK: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    first = tl.program_id(0) * CHUNK
    for row in range(first, tl.minimum(first + CHUNK, rows)):
        total += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    so_far = tl.load(out_ptr + at, mask=at < cols, other=0.0)
    tl.atomic_xchg(lock_ptr, 0)
    tl.store(out_ptr + at, so_far + total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.zeros(cols, device=x.device, dtype=x.dtype)
        lock = torch.zeros(1, device=x.device, dtype=torch.int32)
        sum_kernel[(triton.cdiv(rows, 16),)](x, out, lock, rows, cols, CHUNK=16, BLOCK=triton.next_power_of_2(cols))
        return out
