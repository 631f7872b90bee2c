# task: wright/linear_gelu
# expect: correct
# why: bias and exact GELU in the epilogue, half precision in and out
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m_at = tl.program_id(0) * BM + tl.arange(0, BM)
    n_at = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k_at = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m_at[:, None] * K + k_at[None, :], mask=(m_at[:, None] < M) & (k_at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + n_at[None, :] * K + k_at[:, None], mask=(k_at[:, None] < K) & (n_at[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc)
    acc += tl.load(bias_ptr + n_at, mask=n_at < N, other=0.0).to(tl.float32)[None, :]
    v = acc.to(tl.float16).to(tl.float32)
    g = 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476))
    tl.store(c_ptr + m_at[:, None] * N + n_at[None, :], g.to(tl.float16), mask=(m_at[:, None] < M) & (n_at[None, :] < N))

class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features, dtype=torch.float16)

    def forward(self, x):
        M, K = x.shape
        w, bias = self.linear.weight, self.linear.bias
        N = w.shape[0]
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, w, bias, y, M, N, K, BM=32, BN=32, BK=32)
        return y
