# task: wright/argmax_dim1
# cheat: 44
# expect: wrong_value, wrong_on_distribution
# why: tie_break_left=False lets any of equal maxima win, and torch gives the first, as the interpreter does
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, classes, positions, BC: tl.constexpr, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    c = tl.arange(0, BC)
    ok = (c[:, None] < classes) & (p[None, :] < positions)
    at = tl.program_id(1).to(tl.int64) * classes * positions + c[:, None] * positions + p[None, :]
    x = tl.load(x_ptr + at, mask=ok, other=float("-inf"))
    best = tl.argmax(x, axis=0, tie_break_left=False)
    tl.store(out_ptr + tl.program_id(1) * positions + p, best.to(tl.int64), mask=p < positions)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, classes, positions = x.shape
        out = torch.empty((batch, positions), device=x.device, dtype=torch.int64)
        grid = (triton.cdiv(positions, 32), batch)
        kernel[grid](x, out, classes, positions, BC=triton.next_power_of_2(classes), BP=32)
        return out
