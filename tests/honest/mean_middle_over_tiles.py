# task: wright/mean_middle
# expect: correct
# why: tiles of (sequence, channel), summed along the sequence
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, seq, dim, BLOCK_S: tl.constexpr, BLOCK_D: tl.constexpr):
    batch = tl.program_id(0)
    d = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    total = tl.zeros((BLOCK_D,), tl.float32)
    for start in range(0, seq, BLOCK_S):
        s = start + tl.arange(0, BLOCK_S)
        mask = (s[:, None] < seq) & (d[None, :] < dim)
        total += tl.sum(tl.load(x_ptr + (batch * seq + s[:, None]) * dim + d[None, :], mask=mask, other=0.0), axis=0)
    tl.store(out_ptr + batch * dim + d, total / seq, mask=d < dim)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, seq, dim = x.size()
        out = x.new_empty((batch, dim))
        kernel[(batch, triton.cdiv(dim, 64))](x, out, seq, dim, BLOCK_S=32, BLOCK_D=64)
        return out
