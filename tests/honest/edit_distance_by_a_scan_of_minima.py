# task: hacks/tasks/edit_distances
# expect: correct
# why: a scan of minima with a function of the kernel's own in each round of a loop
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _least(a, b):
    return tl.minimum(a, b)


@triton.jit
def _edit(A, Bs, O, L, N, BLOCK: tl.constexpr):
    b = tl.program_id(0)
    j = tl.arange(0, BLOCK)
    right = tl.load(Bs + b * N + j - 1, mask=(j >= 1) & (j <= N), other=-1)
    d = j
    for i in range(L):
        left = tl.load(A + b * L + i)
        prev = tl.gather(d, tl.maximum(j - 1, 0), 0)
        c = tl.minimum(d + 1, prev + (right != left).to(tl.int32))
        c = tl.where(j == 0, i + 1, c)
        d = tl.associative_scan(c - j, 0, _least) + j
    tl.store(O + b, tl.sum(tl.where(j == N, d, 0), 0).to(tl.int64))


def kernel(a, b):
    a, b = a.contiguous(), b.contiguous()
    o = torch.empty(a.shape[0], device=a.device, dtype=torch.int64)
    _edit[(a.shape[0],)](a, b, o, a.shape[1], b.shape[1], BLOCK=triton.next_power_of_2(b.shape[1] + 1))
    return o


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)

