# task: wright/cumsum
# precision: bf16
# expect: correct
# why: a running total in bfloat16 that carries float32 from block to block
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    before = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
        y = before + tl.cumsum(x, axis=0)
        tl.store(out_ptr + row * cols + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)
        before = before + tl.sum(x, axis=0)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(x.shape[0],)](x, out, x.shape[1], BLOCK=128)
        return out
