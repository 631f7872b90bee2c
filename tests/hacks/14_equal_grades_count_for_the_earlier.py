# task: hacks/tasks/loss_of_ordered_pairs
# cheat: 14
# expect: wrong_on_distribution, wrong_value
# why: pairs of equal grades count, too, for the earlier one
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _k(s_ptr, g_ptr, o_ptr, N, BI: tl.constexpr, BJ: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    j = tl.arange(0, BJ)
    sj = tl.load(s_ptr + b * N + j, mask=j < N, other=0.0)
    gj = tl.load(g_ptr + b * N + j, mask=j < N, other=float("inf"))
    acc = tl.zeros((BI,), tl.float32)
    for i0 in range(0, N, BI):
        i = i0 + tl.arange(0, BI)
        si = tl.load(s_ptr + b * N + i, mask=i < N, other=0.0)
        gi = tl.load(g_ptr + b * N + i, mask=i < N, other=float("-inf"))
        d = sj[None, :] - si[:, None]
        e = tl.exp(-tl.abs(d))
        u = 1.0 + e
        l1p = tl.where(u == 1.0, e, tl.log(u) * (e / tl.where(u == 1.0, 1.0, u - 1.0)))
        loss = tl.maximum(d, 0.0) + l1p
        acc += tl.sum(tl.where((gi[:, None] > gj[None, :]) | ((gi[:, None] == gj[None, :]) & (i[:, None] < j[None, :]) & (gi[:, None] > 0.0)), loss, 0.0), 1)
    tl.store(o_ptr + b, tl.sum(acc, 0))


class ModelNew(nn.Module):
    def forward(self, score, grade):
        score, grade = score.contiguous(), grade.contiguous()
        B, N = score.shape
        o = torch.empty(B, device=score.device)
        _k[(B,)](score, grade, o, N, BI=16, BJ=triton.next_power_of_2(N))
        return o
