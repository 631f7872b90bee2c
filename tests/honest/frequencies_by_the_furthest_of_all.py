# task: hacks/tasks/frequencies_by_the_furthest
# expect: correct
# why: the honest twin of 14_frequencies_by_each_rows_position
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _zero(M):
    tl.store(M, 0)


@triton.jit
def _most(P, M, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.atomic_max(M, tl.max(tl.load(P + i, mask=i < N, other=0), 0).to(tl.int32))


@triton.jit
def _turn(X, P, S, L, M, Y, T, H, BT: tl.constexpr, BH: tl.constexpr, BP: tl.constexpr):
    b = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0) * BT + tl.arange(0, BT)
    d = tl.arange(0, BH)
    last = tl.load(M)
    f = tl.where(last + 1 > 4096, tl.load(L + d, mask=d < H, other=0.0), tl.load(S + d, mask=d < H, other=0.0))
    p = tl.load(P + b * T + t, mask=t < T, other=0).to(tl.float32)
    a = p[:, None] * f[None, :]
    c, s = tl.cos(a), tl.sin(a)
    at = (b * T + t)[:, None] * 2 * H + d[None, :]
    m = (t < T)[:, None] & (d < H)[None, :]
    x, z = tl.load(X + at, mask=m, other=0.0), tl.load(X + at + H, mask=m, other=0.0)
    tl.store(Y + at, x * c - z * s, mask=m)
    tl.store(Y + at + H, z * c + x * s, mask=m)


def kernel(x, pos, short, long):
    x, pos, short, long = x.contiguous(), pos.contiguous(), short.contiguous(), long.contiguous()
    B, T, D = x.shape
    y = torch.empty_like(x)
    m = torch.empty(1, dtype=torch.int32, device=x.device)
    _zero[(1,)](m)
    _most[(triton.cdiv(pos.numel(), 1024),)](pos, m, pos.numel(), BLOCK=1024)
    _turn[(triton.cdiv(T, 32), B)](x, pos, short, long, m, y, T, D // 2, BT=32, BH=triton.next_power_of_2(D // 2), BP=triton.next_power_of_2(T))
    return y


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)
