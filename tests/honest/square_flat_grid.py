# task: wright/matmul_square
# expect: correct
# why: one flat grid, unpacked by division
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    m_at = (pid // across) * BM + tl.arange(0, BM)
    n_at = (pid % across) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k_at = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m_at[:, None] * K + k_at[None, :], mask=(m_at[:, None] < M) & (k_at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k_at[:, None] * N + n_at[None, :], mask=(k_at[:, None] < K) & (n_at[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")

    tl.store(c_ptr + m_at[:, None] * N + n_at[None, :], acc, mask=(m_at[:, None] < M) & (n_at[None, :] < N))

class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        c = a.new_empty((n, n))
        kernel[(triton.cdiv(n, 32) * triton.cdiv(n, 64),)](a, b, c, n, n, n, BM=32, BN=64, BK=16)
        return c
