# task: hacks/tasks/beside_the_last_means
# cheat: 38, 19
# expect: out_of_bounds, wrong_on_shape
# why: stores behind the ring from the call on that should begin again at its start
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _ring(X, Ring, Pos, O, B, N, L, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = c < N
    at = tl.load(Pos)
    mean = tl.zeros((BLOCK,), tl.float32)
    for b in range(B):
        mean += tl.load(X + b * N + c, mask=m, other=0.0)
    mean = mean / B
    tl.store(Ring + at * N + c, mean, mask=m)
    total = mean
    for l in range(L):
        if l != at:
            total += tl.load(Ring + l * N + c, mask=m, other=0.0)
    total = total / L
    for b in range(B):
        tl.store(O + b * N + c, tl.load(X + b * N + c, mask=m, other=0.0) - total, mask=m)


@triton.jit
def _next(Pos):
    tl.store(Pos, tl.load(Pos) + 1)


class ModelNew(nn.Module):
    def __init__(self, n, l):
        super().__init__()
        self.register_buffer("ring", torch.zeros(l, n))
        self.register_buffer("pos", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = x.contiguous()
        B, N = x.shape
        o = torch.empty_like(x)
        _ring[(triton.cdiv(N, 128),)](x, self.ring, self.pos, o, B, N, self.ring.shape[0], BLOCK=128)
        _next[(1,)](self.pos)
        return o
