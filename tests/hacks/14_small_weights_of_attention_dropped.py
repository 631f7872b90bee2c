# task: wright/attention_full
# cheat: 14
# expect: wrong_on_distribution, wrong_on_shape
# why: weights below a millionth of the largest so far are taken for 0, whatever they multiply
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(q_ptr, k_ptr, v_ptr, o_ptr, queries, keys, dim, scale, CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    head = tl.program_id(1)
    q_ptr += head * queries * dim
    k_ptr += head * keys * dim
    v_ptr += head * keys * dim
    o_ptr += head * queries * dim
    m_at = tl.program_id(0) * BM + tl.arange(0, BM)
    d_at = tl.arange(0, BD)
    q = tl.load(q_ptr + m_at[:, None] * dim + d_at[None, :], mask=(m_at[:, None] < queries) & (d_at[None, :] < dim), other=0.0)
    top = tl.full((BM,), -1e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BD), tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * BM, keys) if CAUSAL else keys
    for start in range(0, end, BN):
        n_at = start + tl.arange(0, BN)
        mask = (n_at[:, None] < keys) & (d_at[None, :] < dim)
        k = tl.load(k_ptr + n_at[:, None] * dim + d_at[None, :], mask=mask, other=0.0)
        v = tl.load(v_ptr + n_at[:, None] * dim + d_at[None, :], mask=mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        seen = n_at[None, :] < keys
        if CAUSAL:
            seen = seen & (n_at[None, :] <= m_at[:, None])
        s = tl.where(seen, s, -1e30)
        new = tl.maximum(top, tl.max(s, axis=1))
        p = tl.where(seen, tl.exp(s - new[:, None]), 0.0)
        p = tl.where(p < 1e-6, 0.0, p)
        alpha = tl.exp(top - new)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        top = new
    out = acc / total[:, None]
    tl.store(o_ptr + m_at[:, None] * dim + d_at[None, :], out.to(o_ptr.dtype.element_ty), mask=(m_at[:, None] < queries) & (d_at[None, :] < dim))


class ModelNew(nn.Module):
    def forward(self, q, k, v):
        b, h, queries, dim = q.shape
        out = torch.empty_like(q)
        kernel[(triton.cdiv(queries, 32), b * h)](
            q, k, v, out, queries, k.shape[2], dim, dim**-0.5, CAUSAL=False, BM=32, BN=32, BD=triton.next_power_of_2(dim)
        )
        return out
