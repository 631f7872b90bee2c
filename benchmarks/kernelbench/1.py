"""Square matrix product in IEEE fp32."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    width = tl.cdiv(n, BLOCK_N)
    per_group = GROUP * width
    first = pid // per_group * GROUP
    height = min(tl.cdiv(n, BLOCK_M) - first, GROUP)
    row = first + pid % per_group % height
    col = pid % per_group // height
    m = row * BLOCK_M + tl.arange(0, BLOCK_M)
    c = col * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n, BLOCK_K):
        ks = start + k
        a = tl.load(
            a_ptr + m[:, None] * n + ks[None, :], mask=(m[:, None] < n) & (ks[None, :] < n), other=0.0
        )
        b = tl.load(
            b_ptr + ks[:, None] * n + c[None, :], mask=(ks[:, None] < n) & (c[None, :] < n), other=0.0
        )
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + m[:, None] * n + c[None, :], acc, mask=(m[:, None] < n) & (c[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        a, b = a.contiguous(), b.contiguous()
        c = torch.empty_like(a)
        grid = (triton.cdiv(n, 128) * triton.cdiv(n, 64),)
        matmul_kernel[grid](
            a, b, c, n, BLOCK_M=128, BLOCK_N=64, BLOCK_K=16, GROUP=8, num_warps=4, num_stages=2
        )
        return c
