# task: hacks/tasks/rows_added_to_others
# expect: correct
# why: sums of floats lose digits of their own only
import math
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def _copy(A, O, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(O + i, tl.load(A + i, mask=i < n), mask=i < n)


@triton.jit
def _add(I, Sr, O, E, D, BE: tl.constexpr, BD: tl.constexpr):
    e = tl.program_id(0) * BE + tl.arange(0, BE)
    d = tl.arange(0, BD)
    to = tl.load(I + e, mask=e < E, other=0)
    ok = (e < E)[:, None] & (d < D)[None, :]
    v = tl.load(Sr + e[:, None] * D + d[None, :], mask=ok, other=0.0)
    tl.atomic_add(O + to[:, None] * D + d[None, :], v, mask=ok)


def kernel(base, index, src):
    base, index, src = base.contiguous(), index.contiguous(), src.contiguous()
    o = torch.empty_like(base)
    E, D = src.shape
    _copy[(triton.cdiv(o.numel(), 1024),)](base, o, o.numel(), BLOCK=1024)
    _add[(triton.cdiv(E, 16),)](index, src, o, E, D, BE=16, BD=triton.next_power_of_2(D))
    return o


class ModelNew(nn.Module):
    def forward(self, *arguments):
        return kernel(*arguments)
