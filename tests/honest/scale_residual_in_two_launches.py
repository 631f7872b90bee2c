# task: wright/matmul_scale_residual
# expect: correct
# why: the product by one kernel, the rest by another
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

@triton.jit
def finish_kernel(p_ptr, s_ptr, r_ptr, out_ptr, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    p = tl.load(p_ptr + at, mask=mask)
    s = tl.load(s_ptr + at % cols, mask=mask)
    tl.store(out_ptr + at, p * s + tl.load(r_ptr + at, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features, features))
        self.scale = nn.Parameter(torch.empty(features))

    def forward(self, x, residual):
        M, K = x.shape
        product, out = torch.empty_like(x), torch.empty_like(x)
        kernel[(triton.cdiv(M, 32), triton.cdiv(K, 32))](x, self.weight, product, M, K, K, BM=32, BN=32, BK=32)
        finish_kernel[(triton.cdiv(x.numel(), 512),)](product, self.scale, residual, out, x.numel(), K, BLOCK=512)
        return out
