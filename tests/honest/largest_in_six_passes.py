# task: hacks/tasks/six_largest
# expect: correct
# why: the row is read six times, each time for the largest of those below, or behind, the last
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def largest_kernel(x_ptr, o_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    last = tl.full([], float("inf"), tl.float32)
    where = tl.full([], -1, tl.int32)
    for number in range(6):
        best = tl.full([BLOCK], float("-inf"), tl.float32)
        place = tl.full([BLOCK], 2147483647, tl.int32)
        for start in range(0, cols, BLOCK):
            at = start + c
            x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=float("-inf"))
            left = (at < cols) & ((x < last) | ((x == last) & (at > where)))
            more = left & ((x > best) | (place == 2147483647))
            best = tl.where(more, x, best)
            place = tl.where(more, at, place)
        last = tl.max(best, axis=0)
        where = tl.min(tl.where(best == last, place, 2147483647), axis=0)
        tl.store(o_ptr + row * 6 + number, last)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty(x.shape[0], 6, device=x.device)
        largest_kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=64)
        return out
