# task: wright/linear_layernorm
# expect: correct
# why: the product, then the norm in place on its own output
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
        acc = tl.dot(a, b, acc, input_precision="ieee")
    acc += tl.load(bias_ptr + n_at, mask=n_at < N, other=0.0)[None, :]
    tl.store(c_ptr + m_at[:, None] * N + n_at[None, :], acc, mask=(m_at[:, None] < M) & (n_at[None, :] < N))

@triton.jit
def norm_kernel(y_ptr, w_ptr, b_ptr, cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < cols
    y = tl.load(y_ptr + row * cols + at, mask=mask, other=0.0)
    mean = tl.sum(y, axis=0) / cols
    d = tl.where(mask, y - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(d * d, axis=0) / cols + eps)
    out = d * scale * tl.load(w_ptr + at, mask=mask) + tl.load(b_ptr + at, mask=mask)
    tl.store(y_ptr + row * cols + at, out, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.linear = nn.Linear(in_features, out_features)
        self.norm = nn.LayerNorm(out_features)

    def forward(self, x):
        M, K = x.shape
        w, bias = self.linear.weight, self.linear.bias
        N = w.shape[0]
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(M, 32), triton.cdiv(N, 32))](x, w, bias, y, M, N, K, BM=32, BN=32, BK=32)
        norm_kernel[(M,)](y, self.norm.weight, self.norm.bias, N, self.norm.eps, BLOCK=triton.next_power_of_2(N))
        return y
