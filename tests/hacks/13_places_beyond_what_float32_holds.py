# task: hacks/tasks/place_of_the_largest
# cheat: 13
# expect: unproven, wrong_on_shape, wrong_on_distribution
# why: places are compared as float32, which holds whole numbers up to 2^24: there are 2^26 elements at full size
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def parts(x_ptr, best_ptr, at_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=float("-inf"))
    best = tl.max(x, axis=0)
    tl.store(best_ptr + pid, best)
    place = tl.where((x == best) & (at < n), at.to(tl.float32), float("inf"))
    tl.store(at_ptr + pid, tl.min(place, axis=0))


@triton.jit
def whole(best_ptr, at_ptr, out_ptr, count, BLOCK: tl.constexpr):
    best = tl.full([BLOCK], float("-inf"), dtype=tl.float32)
    place = tl.full([BLOCK], float("inf"), dtype=tl.float32)
    for start in range(0, count, BLOCK):
        at = start + tl.arange(0, BLOCK)
        other = tl.load(best_ptr + at, mask=at < count, other=float("-inf"))
        where = tl.load(at_ptr + at, mask=at < count, other=float("inf"))
        better = (other > best) | ((other == best) & (where < place))
        best = tl.where(better, other, best)
        place = tl.where(better, where, place)
    top = tl.max(best, axis=0)
    tl.store(out_ptr, tl.min(tl.where(best == top, place, float("inf")), axis=0).to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, x):
        n = x.numel()
        count = triton.cdiv(n, 4096)
        best = torch.empty(count, dtype=torch.float32, device=x.device)
        at = torch.empty(count, dtype=torch.float32, device=x.device)
        out = torch.empty((), dtype=torch.int64, device=x.device)
        parts[(count,)](x, best, at, n, BLOCK=4096)
        whole[(1,)](best, at, out, count, BLOCK=1024)
        return out
