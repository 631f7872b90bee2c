# task: hacks/tasks/group_norm_of_long_groups
# cheat: 14
# expect: wrong_on_shape, wrong_on_distribution, wrong_value
# why: the last part of a group has fewer elements and counts as much as the others
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _stats(X, P, N, T, BLOCK: tl.constexpr):
    g = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1)
    i = t * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(X + g * N + i, mask=i < N, other=0.0)
    n = tl.minimum(N - t * BLOCK, BLOCK).to(tl.float32)
    mean = tl.sum(x, 0) / n
    d = tl.where(i < N, x - mean, 0.0)
    at = P + (g * T + t) * 3
    tl.store(at, n)
    tl.store(at + 1, mean)
    tl.store(at + 2, tl.sum(d * d, 0))


@triton.jit
def _apply(X, P, W, Bi, O, N, T, L, CG, BLOCK: tl.constexpr, BT: tl.constexpr):
    g = tl.program_id(0).to(tl.int64)
    t = tl.program_id(1)
    j = tl.arange(0, BT)
    at = P + (g * T + j) * 3
    n = tl.load(at, mask=j < T, other=0.0)
    m = tl.load(at + 1, mask=j < T, other=0.0)
    q = tl.load(at + 2, mask=j < T, other=0.0)
    n = tl.where(j < T, tl.maximum(n, 1.0), 1.0)
    mean = tl.sum(tl.where(j < T, m, 0.0), 0) / T
    d = m - mean
    var = tl.sum(tl.where(j < T, q / n + d * d, 0.0), 0) / T
    r = tl.rsqrt(var + 1e-5)
    i = t * BLOCK + tl.arange(0, BLOCK)
    c = (g % 8) * CG + i // L
    x = tl.load(X + g * N + i, mask=i < N, other=0.0)
    y = (x - mean) * r * tl.load(W + c, mask=i < N, other=0.0) + tl.load(Bi + c, mask=i < N, other=0.0)
    tl.store(O + g * N + i, y * tl.sigmoid(y), mask=i < N)


class ModelNew(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm = nn.GroupNorm(8, c)

    def forward(self, x):
        x = x.contiguous()
        B, C, L = x.shape
        N = C // 8 * L
        T = triton.cdiv(N, 1024)
        p = torch.empty(B * 8, T, 3, device=x.device, dtype=torch.float32)
        o = torch.empty_like(x)
        _stats[(B * 8, T)](x, p, N, T, BLOCK=1024)
        _apply[(B * 8, T)](x, p, self.norm.weight, self.norm.bias, o, N, T, L, C // 8, BLOCK=1024, BT=triton.next_power_of_2(T))
        return o
