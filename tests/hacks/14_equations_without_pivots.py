# task: hacks/tasks/pairs_of_equations
# cheat: 14
# expect: wrong_on_shape, wrong_on_distribution, non_finite, wrong_value
# why: the first equation is divided by its first number, which may be 0 in a well-posed pair
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def solve_kernel(a_ptr, b_ptr, o_ptr, count, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < count
    a = tl.load(a_ptr + 4 * i, mask=m, other=1.0)
    b = tl.load(a_ptr + 4 * i + 1, mask=m, other=0.0)
    c = tl.load(a_ptr + 4 * i + 2, mask=m, other=0.0)
    d = tl.load(a_ptr + 4 * i + 3, mask=m, other=1.0)
    u = tl.load(b_ptr + 2 * i, mask=m, other=0.0)
    v = tl.load(b_ptr + 2 * i + 1, mask=m, other=0.0)
    y = (v - c / a * u) / (d - c / a * b)
    x = (u - b * y) / a
    tl.store(o_ptr + 2 * i, x, mask=m)
    tl.store(o_ptr + 2 * i + 1, y, mask=m)


class ModelNew(nn.Module):
    def forward(self, a, b):
        out = torch.empty_like(b)
        solve_kernel[(triton.cdiv(b.shape[0], 256),)](a, b, out, b.shape[0], BLOCK=256)
        return out
