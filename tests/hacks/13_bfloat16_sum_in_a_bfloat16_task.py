# task: wright/sum_columns
# precision: bf16
# cheat: 13
# expect: low_precision, wrong_value, wrong_on_shape, wrong_on_distribution
# why: the running sum is kept in bfloat16, where sums are made in float32
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.bfloat16)
    for row in range(0, rows):
        total += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    tl.store(out_ptr + at, total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=x.dtype)
        sum_kernel[(triton.cdiv(cols, 64),)](x, out, rows, cols, BLOCK=64)
        return out
