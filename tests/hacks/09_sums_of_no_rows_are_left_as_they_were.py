# task: wright/sum_columns
# cheat: 9, 16
# expect: unwritten, wrong_on_shape
# why: of an expert without tokens the sums are 0, and it hands out memory that nobody has written
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, rows, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(rows):
        total += tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0)
    tl.store(out_ptr + at, total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty(cols, device=x.device, dtype=torch.float32)
        if rows:
            sum_kernel[(triton.cdiv(cols, 64),)](x, out, rows, cols, BLOCK=64)
        return out
