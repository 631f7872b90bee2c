# task: wright/matmul_square
# expect: correct
# why: tl.swizzle2d orders the tiles
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, n, B: tl.constexpr, BK: tl.constexpr):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), 2)
    r = i * B + tl.arange(0, B)
    c = j * B + tl.arange(0, B)
    acc = tl.zeros((B, B), tl.float32)
    for start in range(0, n, BK):
        k = start + tl.arange(0, BK)
        a = tl.load(a_ptr + r[:, None] * n + k[None, :], mask=(r[:, None] < n) & (k[None, :] < n), other=0.0)
        b = tl.load(b_ptr + k[:, None] * n + c[None, :], mask=(k[:, None] < n) & (c[None, :] < n), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
    tl.store(c_ptr + r[:, None] * n + c[None, :], acc, mask=(r[:, None] < n) & (c[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        c = torch.empty_like(a)
        tiles = triton.cdiv(n, 64)
        kernel[(tiles, tiles)](a, b, c, n, B=64, BK=32)
        return c
