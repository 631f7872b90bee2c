# task: hacks/tasks/tokens_before_a_refused_one
# cheat: 14
# expect: wrong_on_distribution, wrong_on_shape, wrong_value
# why: counts all tokens that are equal if the first is: the same unless tokens behind a refused one are equal, too
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _accepted(d_ptr, t_ptr, y_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    d = tl.load(d_ptr + row * N + i, mask=i < N, other=-1)
    t = tl.load(t_ptr + row * N + i, mask=i < N, other=-2)
    same = (d == t).to(tl.int32)
    count = tl.sum(same, 0) * tl.max(tl.where(i == 0, same, 0), 0)
    tl.store(y_ptr + row, count.to(tl.int64))


class ModelNew(nn.Module):
    def forward(self, draft, target):
        draft, target = draft.contiguous(), target.contiguous()
        B, N = draft.shape
        y = torch.empty(B, dtype=torch.int64, device=draft.device)
        _accepted[(B,)](draft, target, y, N, BLOCK=triton.next_power_of_2(N))
        return y
