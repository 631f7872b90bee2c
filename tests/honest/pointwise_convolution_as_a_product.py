# task: wright/conv2d_pointwise
# expect: correct
# why: a 1x1 convolution is a matrix product per image
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    image = tl.program_id(2)
    b_ptr += image * K * N
    c_ptr += image * M * N
    m_at = tl.program_id(0) * BM + tl.arange(0, BM)
    n_at = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k_at = start + tl.arange(0, BK)
        a = tl.load(a_ptr + m_at[:, None] * K + k_at[None, :], mask=(m_at[:, None] < M) & (k_at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + k_at[:, None] * N + n_at[None, :], mask=(k_at[:, None] < K) & (n_at[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    acc += tl.load(bias_ptr + m_at, mask=m_at < M, other=0.0)[:, None]
    tl.store(c_ptr + m_at[:, None] * N + n_at[None, :], acc, mask=(m_at[:, None] < M) & (n_at[None, :] < N))

class ModelNew(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, kernel_size=1)

    def forward(self, x):
        images, k, h, w = x.shape
        weight = self.conv.weight.view(-1, k)
        m = weight.shape[0]
        y = torch.empty((images, m, h, w), device=x.device, dtype=x.dtype)
        kernel[(triton.cdiv(m, 32), triton.cdiv(h * w, 32), images)](
            weight, x, self.conv.bias, y, m, h * w, k, BM=32, BN=32, BK=32
        )
        return y
