# task: hacks/tasks/lamb_step
# cheat: 14
# expect: wrong_on_distribution, wrong_value, low_precision, wrong_on_shape
# why: the ratio of norms is 1 where the weights are zeros, not 0: they would never move
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _moments(P, G, M, V, S, MO, VO, U, PA, PB, N, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * BLOCK + tl.arange(0, BLOCK)
    ok = i < N
    p = tl.load(P + i, mask=ok, other=0.0)
    g = tl.load(G + i, mask=ok, other=0.0)
    step = tl.load(S)
    m = 0.9 * tl.load(M + i, mask=ok, other=0.0) + 0.1 * g
    v = 0.999 * tl.load(V + i, mask=ok, other=0.0) + 0.001 * g * g
    c1 = 1.0 - tl.exp(step * -0.10536051565782628)
    c2 = 1.0 - tl.exp(step * -0.0010005003335835344)
    u = (m / c1) / (tl.sqrt(v / c2) + 1e-6) + 0.01 * p
    tl.store(MO + i, m, mask=ok)
    tl.store(VO + i, v, mask=ok)
    tl.store(U + i, u, mask=ok)
    tl.store(PA + pid, tl.sum(tl.where(ok, p * p, 0.0), 0))
    tl.store(PB + pid, tl.sum(tl.where(ok, u * u, 0.0), 0))


@triton.jit
def _norms(PA, PB, R, T, BLOCK: tl.constexpr):
    a = tl.zeros((BLOCK,), tl.float32)
    b = tl.zeros((BLOCK,), tl.float32)
    for t in range(0, T, BLOCK):
        i = t + tl.arange(0, BLOCK)
        a += tl.load(PA + i, mask=i < T, other=0.0)
        b += tl.load(PB + i, mask=i < T, other=0.0)
    x = tl.sqrt(tl.sum(a, 0))
    y = tl.sqrt(tl.sum(b, 0))
    r = tl.where(y > 0, x / y, 1.0)
    tl.store(R, r)


@triton.jit
def _apply(P, U, R, O, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = i < N
    r = tl.load(R)
    tl.store(O + i, tl.load(P + i, mask=ok) - 1e-3 * r * tl.load(U + i, mask=ok), mask=ok)


def kernel(p, g, m, v, step):
    N = p.numel()
    T = triton.cdiv(N, 1024)
    po, mo, vo, u = torch.empty_like(p), torch.empty_like(m), torch.empty_like(v), torch.empty_like(p)
    pa, pb = torch.empty(T, device=p.device), torch.empty(T, device=p.device)
    r = torch.empty(1, device=p.device)
    _moments[(T,)](p, g, m, v, step, mo, vo, u, pa, pb, N, BLOCK=1024)
    _norms[(1,)](pa, pb, r, T, BLOCK=256)
    _apply[(T,)](p, u, r, po, N, BLOCK=1024)
    return po, mo, vo


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)
