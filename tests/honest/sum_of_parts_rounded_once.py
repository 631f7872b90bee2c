# task: wright/sum_columns
# precision: bf16
# expect: correct
# why: 128 programs add their parts atomically in single precision, and the sum is rounded once
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    col = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for row in range(tl.program_id(0) * ROWS, tl.minimum(tl.program_id(0) * ROWS + ROWS, rows)):
        total += tl.load(x_ptr + row * cols + col, mask=col < cols, other=0.0).to(tl.float32)
    tl.atomic_add(out_ptr + col, total, mask=col < cols)


@triton.jit
def round_kernel(total_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.load(total_ptr + col, mask=col < cols, other=0.0)
    tl.store(out_ptr + col, total.to(tl.bfloat16), mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        total = torch.zeros(cols, dtype=torch.float32, device=x.device)
        out = torch.empty(cols, dtype=x.dtype, device=x.device)
        kernel[(triton.cdiv(rows, 256), triton.cdiv(cols, 64))](x, total, rows, cols, ROWS=256, BLOCK=64)
        round_kernel[(triton.cdiv(cols, 64),)](total, out, cols, BLOCK=64)
        return out
