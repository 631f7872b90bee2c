# task: honest/tasks/diagonal_times_matrix
# precision: bf16
# expect: correct
# why: a diagonal matrix times a matrix scales its rows; a saving in arithmetic is no fraud
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_kernel(a_ptr, b_ptr, out_ptr, m, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    scale = tl.load(a_ptr + row).to(tl.float32)
    b = tl.load(b_ptr + row * m + at, mask=at < m, other=0.0).to(tl.float32)
    tl.store(out_ptr + row * m + at, (scale * b).to(tl.bfloat16), mask=at < m)


class ModelNew(nn.Module):
    def forward(self, a, b):
        n, m = b.shape
        out = torch.empty_like(b)
        scale_kernel[(n, triton.cdiv(m, 256))](a, b, out, m, BLOCK=256)
        return out
