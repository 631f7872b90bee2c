# task: wright/mean_middle
# expect: correct
# why: a permuted, contiguous copy makes the reduced dimension the last
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mean_kernel(x_ptr, out_ptr, length, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * length + at, mask=at < length, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0) / length)


class ModelNew(nn.Module):
    def forward(self, x):
        batch, seq, dim = x.shape
        x = x.permute(0, 2, 1).contiguous()
        out = x.new_empty(batch, dim)
        mean_kernel[(batch * dim,)](x, out, seq, BLOCK=128)
        return out
