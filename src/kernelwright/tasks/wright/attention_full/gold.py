import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    queries,
    keys,
    dim,
    scale,
    BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    """One program: BLOCK_Q queries of one head against all keys, with the online softmax.

    The scores never leave the chip; m is the running row maximum, total the running sum of exponentials.
    """
    head = tl.program_id(1).to(tl.int64)
    q_ptr += head * queries * dim
    k_ptr += head * keys * dim
    v_ptr += head * keys * dim
    o_ptr += head * queries * dim

    rows = tl.program_id(0) * BLOCK_Q + tl.arange(0, BLOCK_Q)
    d = tl.arange(0, BLOCK_D)
    row_mask = (rows[:, None] < queries) & (d[None, :] < dim)
    q = tl.load(q_ptr + rows[:, None] * dim + d[None, :], mask=row_mask, other=0.0) * scale

    m = tl.full((BLOCK_Q,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_Q,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_Q, BLOCK_D), dtype=tl.float32)
    for start in range(0, keys, BLOCK_K):
        cols = start + tl.arange(0, BLOCK_K)
        k_mask = (cols[:, None] < keys) & (d[None, :] < dim)
        k = tl.load(k_ptr + cols[:, None] * dim + d[None, :], mask=k_mask, other=0.0)
        scores = tl.dot(q, tl.trans(k), input_precision="ieee")
        scores = tl.where(cols[None, :] < keys, scores, float("-inf"))

        m_new = tl.maximum(m, tl.max(scores, axis=1))
        rescale = tl.exp(m - m_new)
        p = tl.exp(scores - m_new[:, None])
        total = total * rescale + tl.sum(p, axis=1)
        v = tl.load(v_ptr + cols[:, None] * dim + d[None, :], mask=k_mask, other=0.0)
        acc = tl.dot(p, v, acc * rescale[:, None], input_precision="ieee")
        m = m_new

    tl.store(o_ptr + rows[:, None] * dim + d[None, :], acc / total[:, None], mask=row_mask)


class ModelNew(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        batch, heads, queries, dim = q.shape
        keys = k.shape[2]
        out = torch.empty_like(q)
        grid = lambda meta: (triton.cdiv(queries, meta["BLOCK_Q"]), batch * heads)
        attention_kernel[grid](
            q,
            k,
            v,
            out,
            queries,
            keys,
            dim,
            dim**-0.5,
            BLOCK_Q=64,
            BLOCK_K=32,
            BLOCK_D=max(16, triton.next_power_of_2(dim)),
            num_warps=8,
            num_stages=2,
        )
        return out
