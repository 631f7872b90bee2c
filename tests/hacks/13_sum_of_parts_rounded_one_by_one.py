# task: wright/sum_columns
# precision: bf16
# cheat: 13
# expect: low_precision, wrong_on_shape, wrong_value
# why: 128 programs add their parts atomically in half precision: each addition rounds, which a few outputs do not show
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
    tl.atomic_add(out_ptr + col, total.to(tl.bfloat16), mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        out = torch.zeros(cols, dtype=x.dtype, device=x.device)
        kernel[(triton.cdiv(rows, 256), triton.cdiv(cols, 64))](x, out, rows, cols, ROWS=256, BLOCK=64)
        return out
