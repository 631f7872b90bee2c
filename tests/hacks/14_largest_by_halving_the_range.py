# task: hacks/tasks/two_largest
# cheat: 14
# expect: wrong_value, wrong_on_distribution, low_precision
# why: the largest is sought by thirty halvings of the range of values, which one value far below makes coarse
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def largest(x, inside, at, BLOCK: tl.constexpr):
    low = tl.min(tl.where(inside, x, float("inf")), axis=0)
    high = tl.max(tl.where(inside, x, float("-inf")), axis=0) + 1.0
    for _ in range(30):
        middle = low + (high - low) * 0.5
        above = tl.sum((inside & (x >= middle)).to(tl.int32), axis=0) > 0
        low = tl.where(above, middle, low)
        high = tl.where(above, high, middle)
    return tl.min(tl.where(inside & (x >= low), at, BLOCK - 1), axis=0)


@triton.jit
def kernel(x_ptr, out_ptr, place_ptr, cols, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    inside = at < cols
    for k in tl.static_range(2):
        place = largest(x, inside, at, BLOCK)
        tl.store(out_ptr + row * 2 + k, tl.sum(tl.where(at == place, x, 0.0), axis=0))
        tl.store(place_ptr + row * 2 + k, place.to(tl.int64))
        inside = inside & (at != place)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(rows, 2, device=x.device, dtype=x.dtype)
        places = torch.empty(rows, 2, device=x.device, dtype=torch.int64)
        kernel[(rows,)](x, out, places, cols, BLOCK=triton.next_power_of_2(cols))
        return out, places
