# task: hacks/tasks/largest_of_each_group
# cheat: 14
# gradients: yes
# expect: wrong_on_distribution, wrong_value
# why: each of several equal maxima of a group gets the whole gradient, which torch shares among them
import torch
import torch.nn as nn
import triton
import triton.language as tl

GROUPS = 256


@triton.jit
def _raise(x_ptr, g_ptr, o_ptr, n, C, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(g_ptr + i // C, mask=i < n, other=0) * C + i % C
    tl.atomic_max(o_ptr + at, tl.load(x_ptr + i, mask=i < n, other=0.0), mask=i < n)


@triton.jit
def _back(x_ptr, g_ptr, o_ptr, d_ptr, y_ptr, n, C, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(g_ptr + i // C, mask=i < n, other=0) * C + i % C
    same = tl.load(x_ptr + i, mask=i < n, other=0.0) == tl.load(o_ptr + at, mask=i < n, other=1.0)
    d = tl.load(d_ptr + at, mask=i < n, other=0.0)
    tl.store(y_ptr + i, tl.where(same, d, 0.0), mask=i < n)


class _Largest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        x, group = x.contiguous(), group.contiguous()
        n, C = x.numel(), x.shape[1]
        o = torch.full((GROUPS, C), -10.0, dtype=x.dtype, device=x.device)
        _raise[(triton.cdiv(n, 256),)](x, group, o, n, C, BLOCK=256)
        ctx.save_for_backward(x, group, o)
        return o

    @staticmethod
    def backward(ctx, d):
        x, group, o = ctx.saved_tensors
        n, C = x.numel(), x.shape[1]
        y = torch.empty_like(x)
        _back[(triton.cdiv(n, 256),)](x, group, o, d.contiguous(), y, n, C, BLOCK=256)
        return y, None


class ModelNew(nn.Module):
    def forward(self, x, group):
        return _Largest.apply(x, group)
