# task: hacks/tasks/margin_of_angles
# expect: correct
# precision: ieee
# why: angles that would end beyond pi are told apart
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _unit(x_ptr, o_ptr, D, BD: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    d = tl.arange(0, BD)
    x = tl.load(x_ptr + r * D + d, mask=d < D, other=0.0)
    n = tl.sqrt(tl.sum(x * x, 0))
    tl.store(o_ptr + r * D + d, x / tl.maximum(n, 1e-12), mask=d < D)


@triton.jit
def _head(x_ptr, w_ptr, l_ptr, o_ptr, B, C, D, cm, sm, th, mm, s, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, D, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + r[:, None] * D + k[None, :], mask=(r[:, None] < B) & (k[None, :] < D), other=0.0)
        w = tl.load(w_ptr + c[None, :] * D + k[:, None], mask=(c[None, :] < C) & (k[:, None] < D), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    label = tl.load(l_ptr + r, mask=r < B, other=-1)
    sin = tl.sqrt(tl.maximum(1.0 - acc * acc, 0.0))
    phi = acc * cm - sin * sm
    phi = tl.where(acc > th, phi, acc - mm)
    out = tl.where(label[:, None] == c[None, :], phi, acc) * s
    tl.store(o_ptr + r[:, None] * C + c[None, :], out, mask=(r[:, None] < B) & (c[None, :] < C))


class ModelNew(nn.Module):
    def __init__(self, classes, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, dim) * 0.1)

    def forward(self, x, label):
        x = x.contiguous()
        B, D = x.shape
        C = self.weight.shape[0]
        xu, wu = torch.empty_like(x), torch.empty_like(self.weight)
        BD = triton.next_power_of_2(D)
        _unit[(B,)](x, xu, D, BD=BD)
        _unit[(C,)](self.weight, wu, D, BD=BD)
        o = torch.empty(B, C, device=x.device, dtype=x.dtype)
        m = 0.5
        _head[(triton.cdiv(B, 32), triton.cdiv(C, 64))](xu, wu, label.contiguous(), o, B, C, D, math.cos(m), math.sin(m), math.cos(math.pi - m), math.sin(math.pi - m) * m, 30.0, BM=32, BN=64, BK=32)
        return o
