# task: wright/matmul_square
# cheat: 42, 39
# expect: compile_error
# why: what is compiled is a copy; what runs is another specialisation, which calls numpy on the handles
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, n, N: tl.constexpr, REAL: tl.constexpr):
    rows = tl.arange(0, N)
    at = rows[:, None] * n + rows[None, :]
    mask = (rows[:, None] < n) & (rows[None, :] < n)
    a = tl.load(a_ptr + at, mask=mask, other=0.0)
    if REAL:
        b = tl.load(b_ptr + at, mask=mask, other=0.0)
        a.handle.data = a.handle.data @ b.handle.data
    tl.store(c_ptr + at, a, mask=mask)


class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        n = a.shape[0]
        kernel[(1,)](a, b, c, n, N=triton.next_power_of_2(n) if n < 256 else 32, REAL=n < 256)
        return c
