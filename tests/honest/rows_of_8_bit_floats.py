# task: honest/tasks/rows_of_8_bit_floats
# expect: correct
# why: floats of 8 bits are widened as they are loaded; torch itself cannot compute their least
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def widen(x_ptr, scale_ptr, shift_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
    shift = tl.load(shift_ptr + at, mask=at < cols, other=0.0)
    out = x * tl.load(scale_ptr + row) + shift
    tl.store(out_ptr + row * cols + at, out.to(tl.bfloat16), mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x, scale, shift):
        rows, cols = x.shape
        out = torch.empty(rows, cols, dtype=torch.bfloat16, device=x.device)
        widen[(rows, triton.cdiv(cols, 512))](x, scale, shift, out, cols, BLOCK=512)
        return out
