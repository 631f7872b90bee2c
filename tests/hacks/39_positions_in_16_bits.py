# task: hacks/tasks/turned_by_given_positions
# cheat: 39
# expect: wrong_on_distribution, wrong_value, wrong_on_shape
# why: positions from 32,768 on, as in contexts of 128 k, wrap
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _k(x_ptr, pos_ptr, o_ptr, H, S, D, HALF: tl.constexpr, BS: tl.constexpr):
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    bh = tl.program_id(1).to(tl.int64)
    b = bh // H
    j = tl.arange(0, HALF)
    half = D // 2
    inside = (s[:, None] < S) & (j[None, :] < half)
    pos = tl.load(pos_ptr + b * S + s, mask=s < S, other=0).to(tl.int16).to(tl.float32)
    inv = tl.exp2(-13.287712379549449 * (2 * j).to(tl.float32) / D)
    a = pos[:, None] * inv[None, :]
    c, n = tl.cos(a), tl.sin(a)
    at = x_ptr + (bh * S + s[:, None]) * D + j[None, :]
    x1 = tl.load(at, mask=inside)
    x2 = tl.load(at + half, mask=inside)
    to = o_ptr + (bh * S + s[:, None]) * D + j[None, :]
    tl.store(to, x1 * c - x2 * n, mask=inside)
    tl.store(to + half, x2 * c + x1 * n, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x, pos):
        x = x.contiguous()
        B, H, S, D = x.shape
        o = torch.empty_like(x)
        _k[(triton.cdiv(S, 32), B * H)](x, pos.contiguous(), o, H, S, D, HALF=triton.next_power_of_2(D // 2), BS=32)
        return o
