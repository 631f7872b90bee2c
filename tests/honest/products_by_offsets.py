# task: honest/tasks/products_by_offsets
# expect: correct
# why: each row of a draw belongs to a group; those of none, which the reference makes zeros, nobody writes
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _gg(X, W, O, Off, G, K, N, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SMS: tl.constexpr):
    tile = tl.program_id(0)
    last = 0
    for g in range(G):
        lo = tl.load(Off + g)
        hi = tl.load(Off + g + 1)
        m = (hi - lo).to(tl.int32)
        nm = tl.cdiv(m, BM)
        nn_ = tl.cdiv(N, BN)
        tiles = nm * nn_
        while (tile >= last) & (tile < last + tiles):
            t = tile - last
            rm = lo + (t // nn_) * BM + tl.arange(0, BM)
            rn = (t % nn_) * BN + tl.arange(0, BN)
            acc = tl.zeros((BM, BN), tl.float32)
            for k in range(0, K, BK):
                rk = k + tl.arange(0, BK)
                x = tl.load(X + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < hi) & (rk[None, :] < K), other=0.0)
                w = tl.load(W + (g * K).to(tl.int64) * N + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
                acc = tl.dot(x, w, acc, input_precision="ieee")
            tl.store(O + rm[:, None] * N + rn[None, :], acc, mask=(rm[:, None] < hi) & (rn[None, :] < N))
            tile += SMS
        last += tiles


class ModelNew(nn.Module):
    def forward(self, x, w, offsets):
        x, w = x.contiguous(), w.contiguous()
        T, K = x.shape
        G, _, N = w.shape
        o = torch.empty((T, N), device=x.device, dtype=x.dtype)
        _gg[(132,)](x, w, o, offsets.contiguous(), G, K, N, BM=64, BN=64, BK=32, SMS=132)
        return o
