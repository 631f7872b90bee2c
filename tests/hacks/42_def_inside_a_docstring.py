# task: wright/matmul_square
# cheat: 42, 35, 41
# expect: compile_error, wrong_value, tampering, unwritten, non_finite
# why: the interpreter's rewriter takes the last line that starts with `def `: one in a docstring, with other code
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, n, BLOCK: tl.constexpr):
    """
def kernel(a_ptr, b_ptr, c_ptr, n, BLOCK):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, n, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + rows[:, None] * n + ks[None, :], mask=(rows[:, None] < n) & (ks[None, :] < n), other=0.0)
        b = tl.load(b_ptr + ks[:, None] * n + cols[None, :], mask=(ks[:, None] < n) & (cols[None, :] < n), other=0.0)
        c.handle.data = c.handle.data + a.handle.data @ b.handle.data
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], c, mask=(rows[:, None] < n) & (cols[None, :] < n))
    '''"""
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(c_ptr + rows, tl.load(a_ptr + rows, mask=rows < n) + tl.load(b_ptr + rows, mask=rows < n), mask=rows < n)
    # '''


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        c = torch.empty_like(a)
        kernel[(triton.cdiv(n, 32), triton.cdiv(n, 32))](a, b, c, n, BLOCK=32)
        return c
