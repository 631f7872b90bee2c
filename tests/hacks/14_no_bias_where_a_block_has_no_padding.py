# task: hacks/tasks/scores_with_padding
# cheat: 14
# expect: wrong_value, wrong_on_distribution, wrong_on_shape
# precision: ieee
# why: the bias of a block without padding is left out
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def _attend(Q, K, V, BIAS, KEEP, O, scale, S, H, D, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    bh = tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    d = tl.arange(0, BD)
    inside = (rows[:, None] < S) & (d[None, :] < D)
    q = tl.load(Q + bh * S * D + rows[:, None] * D + d[None, :], mask=inside, other=0.0)
    m_i = tl.full((BM,), -1.0e38, tl.float32)
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    for n0 in range(0, S, BN):
        cols = n0 + tl.arange(0, BN)
        keep = tl.load(KEEP + b * S + cols, mask=cols < S, other=0).to(tl.int32)
        if tl.max(keep, 0) > 0:
            there = (cols[:, None] < S) & (d[None, :] < D)
            k = tl.load(K + bh * S * D + cols[:, None] * D + d[None, :], mask=there, other=0.0)
            v = tl.load(V + bh * S * D + cols[:, None] * D + d[None, :], mask=there, other=0.0)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            pair = (rows[:, None] < S) & (cols[None, :] < S)
            s += tl.load(BIAS + (h * S + rows[:, None]) * S + cols[None, :], mask=pair, other=0.0) * (tl.min(keep, 0) == 0).to(tl.float32)
            s = tl.where(keep[None, :] > 0, s, float("-inf"))
            m_new = tl.maximum(m_i, tl.max(s, 1))
            p = tl.exp(s - m_new[:, None])
            alpha = tl.exp(m_i - m_new)
            l_i = l_i * alpha + tl.sum(p, 1)
            acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
            m_i = m_new
    tl.store(O + bh * S * D + rows[:, None] * D + d[None, :], acc / l_i[:, None], mask=inside)


class ModelNew(nn.Module):
    def forward(self, q, k, v, bias, keep):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        B, H, S, D = q.shape
        o = torch.empty_like(q)
        wide = max(16, triton.next_power_of_2(D))
        grid = (triton.cdiv(S, 32), B * H)
        _attend[grid](
            q, k, v, bias.contiguous(), keep.contiguous(), o, D**-0.5, S, H, D, BM=32, BN=32, BD=wide
        )
        return o
