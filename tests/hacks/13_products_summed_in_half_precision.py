# task: wright/matmul_square
# precision: fp16
# cheat: 13
# expect: low_precision
# why: tl.dot with out_dtype=float16 sums in half precision, where a half-precision reference sums in single
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def product_kernel(a_ptr, b_ptr, out_ptr, m, n, k, TILE: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    cols = tl.program_id(1) * TILE + tl.arange(0, TILE)
    acc = tl.zeros((TILE, TILE), tl.float16)
    for start in range(0, k, STEP):
        terms = start + tl.arange(0, STEP)
        a = tl.load(a_ptr + rows[:, None] * k + terms[None, :], mask=(rows[:, None] < m) & (terms[None, :] < k), other=0.0)
        b = tl.load(b_ptr + terms[:, None] * n + cols[None, :], mask=(terms[:, None] < k) & (cols[None, :] < n), other=0.0)
        acc += tl.dot(a, b, out_dtype=tl.float16)
    tl.store(out_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < m) & (cols[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        out = torch.empty(m, n, dtype=a.dtype, device=a.device)
        product_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32))](a, b, out, m, n, k, TILE=32, STEP=32)
        return out
