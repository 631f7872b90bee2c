# task: wright/mean_middle
# expect: correct
# why: a transposed view goes into the kernel with its strides
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def mean_kernel(x_ptr, out_ptr, dim, length, stride_b, stride_d, stride_s, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    batch = tl.program_id(0)
    d = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((COLUMNS,), tl.float32)
    for start in range(0, length, BLOCK):
        s = start + tl.arange(0, BLOCK)
        at = batch * stride_b + d[:, None] * stride_d + s[None, :] * stride_s
        total += tl.sum(tl.load(x_ptr + at, mask=(d[:, None] < dim) & (s[None, :] < length), other=0.0), axis=1)
    tl.store(out_ptr + batch * dim + d, total / length, mask=d < dim)


class ModelNew(nn.Module):
    def forward(self, x):
        x = x.transpose(1, 2)
        batch, dim, seq = x.shape
        out = torch.empty((batch, dim), device=x.device, dtype=x.dtype)
        mean_kernel[(batch, triton.cdiv(dim, 32))](x, out, dim, seq, *x.stride(), COLUMNS=32, BLOCK=32)
        return out
