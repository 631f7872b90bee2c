# task: wright/argmax_dim1
# expect: correct
# why: int64 indices come from the dtype of the allocated output
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def argmax_kernel(x_ptr, out_ptr, length, inner, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    outer = tl.program_id(0)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    at = tl.arange(0, BLOCK)
    mask = (at[:, None] < length) & (column[None, :] < inner)
    x = tl.load(x_ptr + (outer * length + at[:, None]) * inner + column[None, :], mask=mask, other=-float("inf"))
    tl.store(out_ptr + outer * inner + column, tl.argmax(x, axis=0), mask=column < inner)


class ModelNew(nn.Module):
    def forward(self, x):
        outer, length = x.shape[0], x.shape[1]
        rest = x.shape[2:]
        inner = 1
        for extent in rest:
            inner *= extent
        out = torch.empty((outer, *rest), device=x.device, dtype=torch.int64)
        argmax_kernel[(outer, triton.cdiv(inner, 32))](
            x.contiguous(), out, length, inner, COLUMNS=32, BLOCK=triton.next_power_of_2(length)
        )
        return out
