"""Fused kernels for the operations of a decoding step between its matrix products: attention to a row's own length, residual
with norm, gate, sampling.

In torch, a step of a small model takes two hundred small operations, and attention reads every row's cache up to the longest
row. These kernels are for half precision on CUDA and the shapes of `slots.py`; they compute in float32.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS_OF_A_PRODUCT = 16
"""Least rows of a tensor-core product: the heads of a group are padded to this number."""


@triton.jit
def _normalize(at, norm_at, d, DIM: tl.constexpr, eps):
    """Numbers of the head(s) at `at`, normalised, and those half a head away, which rotary embeddings turn them with."""
    other = (d + DIM // 2) % DIM
    x, pair = tl.load(at + d).to(tl.float32), tl.load(at + other).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, -1, keep_dims=True) / DIM + eps)
    x = x * scale * tl.load(norm_at + d).to(tl.float32)
    pair = pair * scale * tl.load(norm_at + other).to(tl.float32)
    return x, tl.where(d < DIM // 2, -pair, pair)


@triton.jit
def _attend_kernel(
    qkv_ptr, norm_ptr, cos_ptr, sin_ptr, key_ptr, value_ptr, length_ptr, out_ptr, total, eps, scale,
    KV: tl.constexpr, GROUP: tl.constexpr, ROWS: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    HEADS: tl.constexpr = KV * GROUP
    length = tl.minimum(tl.load(length_ptr + row), total - 1).to(tl.int32)
    d = tl.arange(0, DIM)
    cos = tl.load(cos_ptr + length * DIM + d).to(tl.float32)
    sin = tl.load(sin_ptr + length * DIM + d).to(tl.float32)
    qkv_ptr += row * (HEADS + 2 * KV) * DIM
    cache = (row * KV + head) * total * DIM

    k, turned = _normalize(qkv_ptr + (HEADS + head) * DIM, norm_ptr + (HEADS + head) * DIM, d, DIM, eps)
    k = (k * cos + turned * sin).to(key_ptr.dtype.element_ty)
    v = tl.load(qkv_ptr + (HEADS + KV + head) * DIM + d)
    tl.store(key_ptr + cache + length * DIM + d, k)
    tl.store(value_ptr + cache + length * DIM + d, v.to(value_ptr.dtype.element_ty))

    g = tl.arange(0, ROWS)
    query = head * GROUP + tl.minimum(g, GROUP - 1)
    q, turned = _normalize(
        qkv_ptr + query[:, None] * DIM, norm_ptr + query[:, None] * DIM, d[None, :], DIM, eps
    )
    q = ((q * cos[None, :] + turned * sin[None, :]) * scale).to(key_ptr.dtype.element_ty)

    # The row's own token first: it is not read back from the cache.
    top = tl.sum(q.to(tl.float32) * k.to(tl.float32)[None, :], 1)
    norm = tl.full((ROWS,), 1.0, tl.float32)
    acc = tl.zeros((ROWS, DIM), tl.float32) + v.to(tl.float32)[None, :]
    for start in range(0, length, BLOCK):
        n = start + tl.arange(0, BLOCK)
        there = n < length
        at = cache + n[:, None] * DIM + d[None, :]
        keys = tl.load(key_ptr + at, mask=there[:, None], other=0.0)
        scores = tl.dot(q, tl.trans(keys), input_precision="ieee")
        scores = tl.where(there[None, :], scores, -float("inf"))
        best = tl.maximum(top, tl.max(scores, 1))
        weights, kept = tl.exp(scores - best[:, None]), tl.exp(top - best)
        values = tl.load(value_ptr + at, mask=there[:, None], other=0.0)
        norm = norm * kept + tl.sum(weights, 1)
        acc = acc * kept[:, None] + tl.dot(weights.to(values.dtype), values, input_precision="ieee")
        top = best
    out = out_ptr + row * HEADS * DIM + query[:, None] * DIM + d[None, :]
    tl.store(out, (acc / norm[:, None]).to(out_ptr.dtype.element_ty), mask=(g < GROUP)[:, None])


@triton.jit
def _add_norm_kernel(x_ptr, y_ptr, weight_ptr, sum_ptr, out_ptr, eps, N: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = i < N
    x = tl.load(x_ptr + row * N + i, mask=inside, other=0.0).to(tl.float32)
    x += tl.load(y_ptr + row * N + i, mask=inside, other=0.0).to(tl.float32)
    x = x.to(sum_ptr.dtype.element_ty)
    tl.store(sum_ptr + row * N + i, x, mask=inside)
    x = x.to(tl.float32)
    x = x * tl.rsqrt(tl.sum(x * x, 0) / N + eps)
    x *= tl.load(weight_ptr + i, mask=inside, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * N + i, x.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _gate_kernel(both_ptr, out_ptr, N: tl.constexpr, BLOCK: tl.constexpr):
    row, i = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = i < N
    gate = tl.load(both_ptr + row * 2 * N + i, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both_ptr + row * 2 * N + N + i, mask=inside, other=0.0).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + row * N + i, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _draw_kernel(
    logits_ptr, uniform_ptr, token_ptr, logprob_ptr, temperature, N: tl.constexpr, BLOCK: tl.constexpr
):
    row, i = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = i < N
    x = tl.load(logits_ptr + row * N + i, mask=inside, other=-float("inf")).to(tl.float32) / temperature
    weights = tl.exp(x - tl.max(x, 0))
    probs = weights / tl.sum(weights, 0)
    cumulative = tl.cumsum(probs.to(tl.float64), 0)
    goal = tl.load(uniform_ptr + row) * tl.max(cumulative, 0)
    token = tl.minimum(tl.sum(((cumulative <= goal) & inside).to(tl.int32), 0), N - 1)
    chosen = tl.sum(tl.where(i == token, probs, 0.0), 0)
    tl.store(token_ptr + row, token.to(tl.int64))
    tl.store(logprob_ptr + row, tl.log(chosen))


def attend(
    qkv: Tensor,
    norm: Tensor,
    cos: Tensor,
    sin: Tensor,
    keys: Tensor,
    values: Tensor,
    length: Tensor,
    eps: float,
) -> Tensor:
    """Attention output of each row's last token: (rows, heads * dim).

    `qkv` (rows, (heads + 2 kv) * dim): its projections; `norm` (heads + kv, dim): the weights of its norms. Its key and value are
    stored at `length` (rows,) in the caches `keys` and `values` (rows, kv, total, dim); `cos` and `sin` are (total, dim).
    """
    rows, kv, total, dim = keys.shape
    heads = norm.shape[0] - kv
    group = heads // kv
    out = torch.empty((rows, heads * dim), dtype=qkv.dtype, device=qkv.device)
    padded = max(_ROWS_OF_A_PRODUCT, triton.next_power_of_2(group))
    _attend_kernel[(rows, kv)](
        qkv, norm, cos, sin, keys, values, length, out, total, eps, dim**-0.5,
        KV=kv, GROUP=group, ROWS=padded, DIM=dim, BLOCK=64, num_warps=4, num_stages=3,
    )  # fmt: skip
    return out


def add_norm(x: Tensor, y: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """`x + y` (rows, n), and its RMS norm by `weight` (n,)."""
    (rows, n), both = x.shape, (torch.empty_like(x), torch.empty_like(x))
    block = triton.next_power_of_2(n)
    _add_norm_kernel[(rows,)](x, y, weight, *both, eps, N=n, BLOCK=block, num_warps=4 if n > 512 else 2)
    return both


def gated_silu(both: Tensor) -> Tensor:
    """silu(gate) * up of (rows, 2 n), gates first."""
    rows, n = both.shape[0], both.shape[1] // 2
    out = both.new_empty((rows, n))
    block = min(1024, triton.next_power_of_2(n))
    _gate_kernel[(rows, triton.cdiv(n, block))](both, out, N=n, BLOCK=block, num_warps=4)
    return out


def draw(logits: Tensor, uniform: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Like `hf.draw` without top-p, for logits (rows, n), each row in one block: (tokens, log-probs), one per row."""
    rows, n = logits.shape
    token = torch.empty(rows, dtype=torch.long, device=logits.device)
    logprob = torch.empty(rows, dtype=torch.float32, device=logits.device)
    block = triton.next_power_of_2(n)
    _draw_kernel[(rows,)](
        logits, uniform, token, logprob, temperature, N=n, BLOCK=block, num_warps=8 if n > 2048 else 4
    )
    return token, logprob
