# task: honest/tasks/sparsemax
# expect: correct
# why: rounds until nobody leaves: how many depends on the row, and a program that leaves the path of the first begins again
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _sparsemax(X, O, N, BLOCK: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    x = tl.load(X + r * N + i, mask=i < N, other=-float("inf"))
    top = tl.max(x, 0)
    x = x - top
    keep = (i < N) & (x > -1.0)
    n = tl.sum(keep.to(tl.int32), 0)
    before = n + 1
    tau = top * 0.0 - 1.0
    while n < before:
        before = n
        tau = (tl.sum(tl.where(keep, x, 0.0), 0) - 1.0) / n
        keep = keep & (x > tau)
        n = tl.sum(keep.to(tl.int32), 0)
    tl.store(O + r * N + i, tl.maximum(x - tau, 0.0), mask=i < N)


def kernel(x):
    n = x.shape[-1]
    o = torch.empty_like(x)
    _sparsemax[(x.numel() // n,)](x, o, n, BLOCK=triton.next_power_of_2(n))
    return o


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)

