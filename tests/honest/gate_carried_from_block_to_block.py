# task: hacks/tasks/gate_between_two_bounds
# expect: correct
# why: a scan of pairs, whose last value goes on to the next block
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _join(set_a, value_a, set_b, value_b):
    return set_a | set_b, tl.where(set_b != 0, value_b, value_a)


@triton.jit
def _gate(X, Y, N, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    state = 0
    for n in range(0, N, BLOCK):
        i = n + tl.arange(0, BLOCK)
        x = tl.load(X + r * N + i, mask=i < N, other=0.0)
        is_set = ((x > 0.5) | (x < -0.5)).to(tl.int32)
        known, value = tl.associative_scan((is_set, (x > 0.5).to(tl.int32)), 0, _join)
        value = tl.where(known != 0, value, state)
        tl.store(Y + r * N + i, value.to(tl.float32), mask=i < N)
        state = tl.sum(tl.where(tl.arange(0, BLOCK) == BLOCK - 1, value, 0), 0)


def kernel(x):
    x = x.contiguous()
    N = x.shape[-1]
    y = torch.empty_like(x)
    _gate[(x.numel() // N,)](x, y, N, BLOCK=512)
    return y


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)
