# task: wright/matmul_scale_residual
# expect: correct
# why: scale and residual in the epilogue of the product
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, s_ptr, r_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m_at = tl.program_id(0) * BM + tl.arange(0, BM)
    n_at = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k_at = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m_at[:, None] * K + k_at[None, :], mask=(m_at[:, None] < M) & (k_at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k_at[:, None] * N + n_at[None, :], mask=(k_at[:, None] < K) & (n_at[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    s = tl.load(s_ptr + n_at, mask=n_at < N, other=0.0)
    r = tl.load(r_ptr + m_at[:, None] * N + n_at[None, :], mask=(m_at[:, None] < M) & (n_at[None, :] < N), other=0.0)
    tl.store(c_ptr + m_at[:, None] * N + n_at[None, :], acc * s[None, :] + r, mask=(m_at[:, None] < M) & (n_at[None, :] < N))

class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, features) * features**-0.5)
        self.scale = nn.Parameter(torch.rand(features))

    def forward(self, x, residual):
        M, K = x.shape
        c = torch.empty_like(residual)
        kernel[(triton.cdiv(M, 32), triton.cdiv(K, 32))](
            x, self.weight, self.scale, residual, c, M, K, K, BM=32, BN=32, BK=32
        )
        return c
