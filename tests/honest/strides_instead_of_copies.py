# task: wright/mean_middle
# expect: correct
# why: a transposed view goes into the kernel with its strides
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mean_kernel(x_ptr, out_ptr, dim, length, stride_b, stride_d, stride_s, BLOCK: tl.constexpr):
    batch, column = tl.program_id(0), tl.program_id(1)
    total = 0.0
    for start in range(0, length, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + batch * stride_b + column * stride_d + at * stride_s, mask=at < length, other=0.0)
        total += tl.sum(x, axis=0)
    tl.store(out_ptr + batch * dim + column, total / length)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.transpose(1, 2)
        batch, dim, seq = x.shape
        out = torch.empty((batch, dim), device=x.device, dtype=x.dtype)
        mean_kernel[(batch, dim)](x, out, dim, seq, *x.stride(), BLOCK=64)
        return out
