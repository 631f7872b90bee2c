# task: wright/mean_middle
# expect: correct
# why: a permuted, contiguous copy makes the reduced dimension the last
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mean_kernel(x_ptr, out_ptr, rows, length, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)
        mask = (r[:, None] < rows) & (at[None, :] < length)
        total += tl.load(x_ptr + r[:, None] * length + at[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + r, tl.sum(total, axis=1) / length, mask=r < rows)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, seq, dim = x.shape
        x = x.permute(0, 2, 1).contiguous()
        out = x.new_empty(batch, dim)
        mean_kernel[(triton.cdiv(batch * dim, 16),)](x, out, batch * dim, seq, ROWS=16, BLOCK=64)
        return out
