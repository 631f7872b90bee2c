# task: wright/sum_columns
# expect: correct
# why: where there is no row no kernel is needed: the sums are zeros that torch makes
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < cols
    total = tl.load(x_ptr + at, mask=inside, other=0.0)
    for row in range(1, rows):
        total += tl.load(x_ptr + row * cols + at, mask=inside, other=0.0)
    tl.store(out_ptr + at, total, mask=inside)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        if rows == 0:
            return x.new_zeros(cols)
        out = torch.empty(cols, device=x.device, dtype=torch.float32)
        sum_kernel[(triton.cdiv(cols, 64),)](x, out, rows, cols, BLOCK=64)
        return out
