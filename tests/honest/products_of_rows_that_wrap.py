# task: wright/matmul_transposed_b
# expect: correct
# why: rows behind the last are taken from the beginning in place of a mask, and are not stored
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, ROWS: tl.constexpr, COLS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    there, here = rows % M, cols % N
    total = tl.zeros((ROWS, COLS), tl.float32)
    for start in range(0, K, BLOCK):
        ks = start + tl.arange(0, BLOCK)
        a = tl.load(a_ptr + there[:, None] * K + ks[None, :], mask=ks[None, :] < K, other=0.0)
        b = tl.load(b_ptr + here[None, :] * K + ks[:, None], mask=ks[:, None] < K, other=0.0)
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total.to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[0]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
        kernel[grid](a, b, c, M, N, K, ROWS=128, COLS=128, BLOCK=64)
        return c
