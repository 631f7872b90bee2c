# task: hacks/tasks/faded_by_distance
# precision: bf16
# expect: correct
# why: positions in single precision; weights in bfloat16, as the reference has them
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _rd(X, SL, O, S, D, BM: tl.constexpr, BK: tl.constexpr, BD: tl.constexpr):
    b = tl.program_id(1).to(tl.int64)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.program_id(2) * BD + tl.arange(0, BD)
    slope = tl.abs(tl.load(SL).to(tl.float32)) * 1e-3
    acc = tl.zeros((BM, BD), tl.float32)
    pm = rm.to(tl.float32)
    for k in range(0, S, BK):
        rk = k + tl.arange(0, BK)
        pk = rk.to(tl.float32)
        w = tl.exp(-tl.abs(pm[:, None] - pk[None, :]) * slope)
        w = tl.where(rk[None, :] < S, w, 0.0).to(tl.bfloat16)
        x = tl.load(X + b * S * D + rk[:, None] * D + rd[None, :], mask=(rk[:, None] < S) & (rd[None, :] < D), other=0.0)
        acc = tl.dot(w, x, acc)
    tl.store(O + b * S * D + rm[:, None] * D + rd[None, :], acc.to(O.dtype.element_ty), mask=(rm[:, None] < S) & (rd[None, :] < D))


class ModelNew(nn.Module):
    def forward(self, x, slope):
        x = x.contiguous()
        B, S, D = x.shape
        o = torch.empty_like(x)
        _rd[(triton.cdiv(S, 64), B, triton.cdiv(D, 64))](x, slope, o, S, D, BM=64, BK=64, BD=64)
        return o
