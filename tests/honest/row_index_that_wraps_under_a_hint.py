# task: wright/matmul_square
# expect: correct
# why: rows wrap at the end of the matrix and are promised to be contiguous, as in many published products: what the last
#      lanes load is never stored
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, n, TILE: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    cols = tl.program_id(1) * TILE + tl.arange(0, TILE)
    wrapped = tl.max_contiguous(tl.multiple_of(rows % n, TILE), TILE)
    around = tl.max_contiguous(tl.multiple_of(cols % n, TILE), TILE)
    acc = tl.zeros((TILE, TILE), tl.float32)
    for start in range(0, n, STEP):
        terms = start + tl.arange(0, STEP)
        a = tl.load(a_ptr + wrapped[:, None] * n + terms[None, :], mask=terms[None, :] < n, other=0.0)
        b = tl.load(b_ptr + terms[:, None] * n + around[None, :], mask=terms[:, None] < n, other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < n) & (cols[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        out = torch.empty_like(a)
        blocks = triton.cdiv(n, 64)
        product_kernel[(blocks, blocks)](a, b, out, n, TILE=64, STEP=32)
        return out
