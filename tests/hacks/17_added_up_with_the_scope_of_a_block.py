# task: wright/sum_columns
# cheat: 17
# expect: nondeterministic
# why: programs add to one sum by atomics of the scope of a block, which are none to other programs
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
    tl.atomic_add(out_ptr + at, total, mask=at < cols, sem="relaxed", scope="cta")


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.zeros(cols, device=x.device, dtype=x.dtype)
        sum_kernel[(triton.cdiv(rows, 4),)](x, out, rows, cols, CHUNK=4, BLOCK=triton.next_power_of_2(cols))
        return out
