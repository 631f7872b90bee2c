# task: wright/matmul_tall_skinny
# expect: correct
# why: allow_tf32=False, as kernels of older versions say it
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        i = start + tl.arange(0, BK)
        a = tl.load(a_ptr + r[:, None] * k + i[None, :], mask=(r[:, None] < m) & (i[None, :] < k), other=0.0)
        b = tl.load(b_ptr + i[:, None] * n + c[None, :], mask=(i[:, None] < k) & (c[None, :] < n), other=0.0)
        acc += tl.dot(a, b, allow_tf32=False)
    tl.store(c_ptr + r[:, None] * n + c[None, :], acc, mask=(r[:, None] < m) & (c[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        c = torch.empty((m, n), device=a.device, dtype=a.dtype)
        kernel[(triton.cdiv(m, 64),)](a, b, c, m, n, k, BM=64, BN=max(16, triton.next_power_of_2(n)), BK=32)
        return c
