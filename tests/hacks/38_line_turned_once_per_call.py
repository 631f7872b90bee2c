# task: hacks/tasks/delay_line
# cheat: 38, 15
# expect: out_of_bounds
# why: in the call in which the line wraps, rows behind it are read and written
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _echo(x_ptr, l_ptr, at_ptr, o_ptr, D, L, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    at = tl.load(at_ptr) % L + r
    for d0 in range(0, D, BLOCK):
        d = d0 + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + r * D + d, mask=d < D, other=0.0)
        old = tl.load(l_ptr + at * D + d, mask=d < D, other=0.0)
        tl.store(o_ptr + r * D + d, x + 0.5 * old, mask=d < D)


@triton.jit
def _keep(x_ptr, l_ptr, at_ptr, D, L, BLOCK: tl.constexpr):
    r = tl.program_id(0)
    at = tl.load(at_ptr) % L + r
    for d0 in range(0, D, BLOCK):
        d = d0 + tl.arange(0, BLOCK)
        tl.store(l_ptr + at * D + d, tl.load(x_ptr + r * D + d, mask=d < D, other=0.0), mask=d < D)


@triton.jit
def _advance(at_ptr, T):
    tl.store(at_ptr, tl.load(at_ptr) + T)


class ModelNew(nn.Module):
    def __init__(self, d, l):
        super().__init__()
        self.register_buffer("line", torch.zeros(l, d))
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        x = x.contiguous()
        T, D = x.shape
        o = torch.empty_like(x)
        _echo[(T,)](x, self.line, self.at, o, D, self.line.shape[0], BLOCK=256)
        _keep[(T,)](x, self.line, self.at, D, self.line.shape[0], BLOCK=256)
        _advance[(1,)](self.at, T)
        return o
