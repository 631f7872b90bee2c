# task: hacks/tasks/places_among_edges
# expect: correct
# why: a search in all lanes, with a step for the place behind the last edge
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _k(e_ptr, x_ptr, o_ptr, N, Q, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    b = tl.program_id(0).to(tl.int64)
    q = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + b * Q + q, mask=q < Q, other=0.0)
    lo = tl.zeros((BLOCK,), tl.int32)
    hi = tl.zeros((BLOCK,), tl.int32) + N
    for _ in tl.static_range(STEPS):
        mid = (lo + hi) // 2
        open = lo < hi
        e = tl.load(e_ptr + b * N + mid, mask=open, other=0.0)
        right = open & (e <= x)
        lo = tl.where(right, mid + 1, lo)
        hi = tl.where(open & ~(e <= x), mid, hi)
    tl.store(o_ptr + b * Q + q, lo.to(tl.int64), mask=q < Q)


class ModelNew(nn.Module):
    def forward(self, edges, x):
        edges, x = edges.contiguous(), x.contiguous()
        B, N = edges.shape
        Q = x.shape[1]
        o = torch.empty(B, Q, device=x.device, dtype=torch.int64)
        _k[(B, triton.cdiv(Q, 256))](edges, x, o, N, Q, STEPS=N.bit_length(), BLOCK=256)
        return o
