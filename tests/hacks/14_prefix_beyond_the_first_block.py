# task: hacks/tasks/keys_of_a_prefix
# cheat: 14
# expect: wrong_on_shape, wrong_value
# precision: fp16
# why: a prefix longer than a block of queries is cut off for the first of them
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _attn(Q, K, V, P, O, sm_scale, S, H, D, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    m_blk = tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    rows = m_blk * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    q = tl.load(Q + bh * S * D + rows[:, None] * D + d[None, :], mask=(rows[:, None] < S) & (d[None, :] < D), other=0.0)
    m_i = tl.full((BM,), float("-inf"), tl.float32)
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    prefix = tl.load(P + bh // H)
    hi = tl.minimum(S, (m_blk + 1) * BM).to(tl.int32)
    for n0 in range(0, hi, BN):
        cols = n0 + tl.arange(0, BN)
        k = tl.load(K + bh * S * D + cols[None, :] * D + d[:, None], mask=(cols[None, :] < S) & (d[:, None] < D), other=0.0)
        s = tl.dot(q, k) * (sm_scale * 1.44269504)
        s = tl.where((cols[None, :] < S) & (((cols[None, :] <= rows[:, None]) | (cols[None, :] < prefix))), s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + bh * S * D + cols[:, None] * D + d[None, :], mask=(cols[:, None] < S) & (d[None, :] < D), other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
    o = acc / l_i[:, None]
    tl.store(O + bh * S * D + rows[:, None] * D + d[None, :], o.to(O.dtype.element_ty), mask=(rows[:, None] < S) & (d[None, :] < D))


class ModelNew(nn.Module):
    def forward(self, q, k, v, prefix):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        B, H, S, D = q.shape
        o = torch.empty_like(q)
        BM, BN = 64, 64
        _attn[(triton.cdiv(S, BM), B * H)](q, k, v, prefix.contiguous(), o, D ** -0.5, S, H, D, BM=BM, BN=BN, BD=max(16, triton.next_power_of_2(D)), num_warps=4)
        return o
