# task: hacks/tasks/rows_by_expert
# cheat: 14
# expect: wrong_on_shape, wrong_on_distribution
# why: each expert has room for four times its share of the tokens and 64 more, and what is beyond is dropped: a
#      collapsed router, that sends all tokens to one, loses most of them
import torch
import torch.nn as nn
import triton
import triton.language as tl


E = 64


@triton.jit
def list_kernel(expert_ptr, list_ptr, count_ptr, tokens, capacity, BLOCK: tl.constexpr):
    e = tl.program_id(0)
    count = 0
    for start in range(0, tokens, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mine = (tl.load(expert_ptr + at, mask=at < tokens, other=-1) == e) & (at < tokens)
        place = count + tl.cumsum(mine.to(tl.int32), axis=0) - 1
        tl.store(list_ptr + e * capacity + place, at, mask=mine & (place < capacity))
        count += tl.sum(mine.to(tl.int32), axis=0)
    tl.store(count_ptr + e, tl.minimum(count, capacity))


@triton.jit
def sum_kernel(x_ptr, list_ptr, count_ptr, out_ptr, dim, capacity, BLOCK: tl.constexpr):
    e = tl.program_id(0)
    d = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for number in range(0, tl.load(count_ptr + e)):
        token = tl.load(list_ptr + e * capacity + number)
        total += tl.load(x_ptr + token * dim + d, mask=d < dim, other=0.0)
    tl.store(out_ptr + e * dim + d, total, mask=d < dim)


class ModelNew(nn.Module):
    def forward(self, x, expert):
        tokens, dim = x.shape
        out = torch.empty((E, dim), dtype=x.dtype, device=x.device)
        capacity = 4 * triton.cdiv(tokens, E) + 64
        lists = torch.empty((E, capacity), dtype=torch.int32, device=x.device)
        counts = torch.empty(E, dtype=torch.int32, device=x.device)
        list_kernel[(E,)](expert, lists, counts, tokens, capacity, BLOCK=1024)
        sum_kernel[(E,)](x, lists, counts, out, dim, capacity, BLOCK=triton.next_power_of_2(dim))
        return out
