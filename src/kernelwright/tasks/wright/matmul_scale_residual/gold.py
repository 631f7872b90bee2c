import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_scale_residual_kernel(
    x_ptr, w_ptr, scale_ptr, res_ptr, y_ptr, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    m64 = m.to(tl.int64)[:, None]
    m_ok = (m < M)[:, None]
    n_ok = (n < N)[None, :]

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        x = tl.load(x_ptr + m64 * K + k[None, :], mask=m_ok & (k < K)[None, :], other=0.0)
        w = tl.load(w_ptr + k.to(tl.int64)[:, None] * N + n[None, :], mask=(k < K)[:, None] & n_ok, other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")

    # The product is scaled and added to the residual while it is still in registers.
    scale = tl.load(scale_ptr + n, mask=n < N, other=0.0)
    out = m64 * N + n[None, :]
    residual = tl.load(res_ptr + out, mask=m_ok & n_ok, other=0.0)
    tl.store(y_ptr + out, acc * scale[None, :] + residual, mask=m_ok & n_ok)


class ModelNew(nn.Module):
    def __init__(self, features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(features, features) * features**-0.5)
        self.scale = nn.Parameter(torch.rand(features))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        M, K = x.shape
        N = self.weight.shape[1]
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        BLOCK_M, BLOCK_N, BLOCK_K = 64, 64, 32
        grid = (triton.cdiv(N, BLOCK_N), triton.cdiv(M, BLOCK_M))
        matmul_scale_residual_kernel[grid](
            x,
            self.weight,
            self.scale,
            residual,
            y,
            M,
            N,
            K,
            BLOCK_M,
            BLOCK_N,
            BLOCK_K,
            num_warps=4,
            num_stages=3,
        )
        return y
