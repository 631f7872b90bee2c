# task: wright/matmul_transposed_a
# expect: correct
# why: the operand is transposed by a copy first
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m_at = tl.program_id(0) * BM + tl.arange(0, BM)
    n_at = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k_at = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m_at[:, None] * K + k_at[None, :], mask=(m_at[:, None] < M) & (k_at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k_at[:, None] * N + n_at[None, :], mask=(k_at[:, None] < K) & (n_at[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")

    tl.store(c_ptr + m_at[:, None] * N + n_at[None, :], acc, mask=(m_at[:, None] < M) & (n_at[None, :] < N))

class ModelNew(nn.Module):
    def forward(self, a, b):
        a = a.t().contiguous()
        M, K = a.shape
        N = b.size(1)
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, BM=32, BN=32, BK=32)
        return c
