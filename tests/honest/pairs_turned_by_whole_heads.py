# task: honest/tasks/pairs_turned
# expect: correct
# why: two sizes of the full size are constants, and no program of it can be held against one period, for pairs are neighbours
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def turned_kernel(x_ptr, angle_ptr, out_ptr, times, heads, PAIRS: tl.constexpr, BLOCK: tl.constexpr):
    time = tl.program_id(0)
    head = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    angle = tl.load(angle_ptr + time * PAIRS + tl.arange(0, PAIRS))
    cos, sin = tl.cos(angle)[None, :], tl.sin(angle)[None, :]
    at = ((tl.program_id(1) * times + time) * heads + head[:, None]) * (2 * PAIRS) + tl.arange(0, 2 * PAIRS)[None, :]
    x = tl.load(x_ptr + at, mask=head[:, None] < heads, other=0.0)
    even, odd = tl.split(tl.reshape(x, [BLOCK, PAIRS, 2]))
    turned = tl.join(even * cos - odd * sin, even * sin + odd * cos)
    tl.store(out_ptr + at, tl.reshape(turned, [BLOCK, 2 * PAIRS]), mask=head[:, None] < heads)


class ModelNew(nn.Module):
    def forward(self, x, angles):
        x, angles = x.contiguous(), angles.contiguous()
        batch, times, heads, width = x.shape
        out = torch.empty_like(x)
        block = min(16, triton.next_power_of_2(heads))
        grid = (times, batch, triton.cdiv(heads, block))
        turned_kernel[grid](x, angles, out, times, heads, PAIRS=width // 2, BLOCK=block)
        return out
