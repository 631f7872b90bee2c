# task: honest/tasks/turned_by_tables_of_equal_halves
# expect: correct
# why: the first half of each table is read for both, as published kernels do: every table that is drawn has equal halves
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turn_kernel(q_ptr, cos_ptr, sin_ptr, out_ptr, seq, heads, HALF: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < HALF
    place = (row // heads) % seq * 2 * HALF + at
    cos = tl.load(cos_ptr + place, mask=inside)
    sin = tl.load(sin_ptr + place, mask=inside)
    first = tl.load(q_ptr + row * 2 * HALF + at, mask=inside)
    second = tl.load(q_ptr + row * 2 * HALF + HALF + at, mask=inside)
    tl.store(out_ptr + row * 2 * HALF + at, first * cos - second * sin, mask=inside)
    tl.store(out_ptr + row * 2 * HALF + HALF + at, second * cos + first * sin, mask=inside)


class ModelNew(nn.Module):
    def forward(self, q, cos, sin):
        q, cos, sin = q.contiguous(), cos.contiguous(), sin.contiguous()
        batch, seq, heads, width = q.shape
        out = torch.empty_like(q)
        half = width // 2
        turn_kernel[(batch * seq * heads,)](
            q, cos, sin, out, seq, heads, HALF=half, BLOCK=triton.next_power_of_2(half), num_warps=1
        )
        return out
