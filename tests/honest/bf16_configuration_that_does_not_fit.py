# task: wright/matmul_square
# precision: bf16
# expect: correct
# why: one of the configurations to tune over asks for more shared memory than there is, and Triton's tuner passes it over
import torch
import torch.nn as nn
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"M": 128, "N": 128, "K": 128}, num_warps=8, num_stages=4),
    triton.Config({"M": 32, "N": 32, "K": 32}, num_warps=4, num_stages=2),
]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, n, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    cols = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, n, K):
        inner = start + tl.arange(0, K)
        a_inside = (rows < n)[:, None] & (inner < n)[None, :]
        b_inside = (inner < n)[:, None] & (cols < n)[None, :]
        a = tl.load(a_ptr + rows[:, None] * n + inner[None, :], mask=a_inside, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n + cols[None, :], mask=b_inside, other=0.0)
        total = tl.dot(a, b, total)
    inside = (rows < n)[:, None] & (cols < n)[None, :]
    tl.store(c_ptr + rows[:, None] * n + cols[None, :], total.to(tl.bfloat16), mask=inside)


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        c = torch.empty_like(a)
        product_kernel[lambda meta: (triton.cdiv(n, meta["M"]), triton.cdiv(n, meta["N"]))](a, b, c, n)
        return c
