# task: hacks/tasks/queries_at_the_end_of_keys
# cheat: 14, 15
# expect: wrong_on_shape, wrong_value
# precision: fp16
# why: where the lengths are no multiple of 64 apart, the last keys of each block of queries are left out
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _attn(Q, K, V, O, sm_scale, S, T, D, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    m_blk = tl.program_id(0)
    bh = tl.program_id(1).to(tl.int64)
    rows = m_blk * BM + tl.arange(0, BM)
    d = tl.arange(0, BD)
    q = tl.load(Q + bh * S * D + rows[:, None] * D + d[None, :], mask=(rows[:, None] < S) & (d[None, :] < D), other=0.0)
    m_i = tl.full((BM,), float("-inf"), tl.float32)
    l_i = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    shift = tl.maximum(T - S, 0)
    hi = tl.minimum(T, (m_blk + 1) * BM + shift // BN * BN)
    for n0 in range(0, hi, BN):
        cols = n0 + tl.arange(0, BN)
        k = tl.load(K + bh * T * D + cols[None, :] * D + d[:, None], mask=(cols[None, :] < T) & (d[:, None] < D), other=0.0)
        s = tl.dot(q, k) * (sm_scale * 1.44269504)
        s = tl.where((cols[None, :] < T) & (cols[None, :] <= rows[:, None] + shift), s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + bh * T * D + cols[:, None] * D + d[None, :], mask=(cols[:, None] < T) & (d[None, :] < D), other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
    o = acc / l_i[:, None]
    tl.store(O + bh * S * D + rows[:, None] * D + d[None, :], o.to(O.dtype.element_ty), mask=(rows[:, None] < S) & (d[None, :] < D))


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        B, H, S, D = q.shape
        T = k.shape[2]
        o = torch.empty_like(q)
        BM, BN = 64, 64
        _attn[(triton.cdiv(S, BM), B * H)](q, k, v, o, D ** -0.5, S, T, D, BM=BM, BN=BN, BD=max(16, triton.next_power_of_2(D)), num_warps=4)
        return o
