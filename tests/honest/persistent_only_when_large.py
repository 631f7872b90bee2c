# task: wright/matmul_square
# expect: correct
# why: many tiles are shared out over as many programs as there are processors, few are not; tiles are larger, too
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(a_ptr, b_ptr, c_ptr, n, tiles, BLOCK: tl.constexpr, STEP: tl.constexpr):
    across = tl.cdiv(n, BLOCK)
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        rows = tile // across * BLOCK + tl.arange(0, BLOCK)
        cols = tile % across * BLOCK + tl.arange(0, BLOCK)
        acc = tl.zeros((BLOCK, BLOCK), tl.float32)
        for start in range(0, n, STEP):
            ks = start + tl.arange(0, STEP)
            a = tl.load(a_ptr + rows[:, None] * n + ks[None, :], mask=(rows[:, None] < n) & (ks[None, :] < n), other=0.0)
            b = tl.load(b_ptr + ks[:, None] * n + cols[None, :], mask=(ks[:, None] < n) & (cols[None, :] < n), other=0.0)
            acc = tl.dot(a, b, acc, input_precision="ieee")
        tl.store(c_ptr + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < n) & (cols[None, :] < n))


class ModelNew(nn.Module):
    def forward(self, a, b):
        n = a.shape[0]
        c = torch.empty_like(a)
        block = 128 if n >= 1024 else 32
        tiles = triton.cdiv(n, block) ** 2
        kernel[(min(tiles, 132),)](a, b, c, n, tiles, BLOCK=block, STEP=32, num_warps=8 if block > 64 else 4)
        return c
