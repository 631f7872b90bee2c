# task: wright/relu
# expect: correct
# why: strides handed to the kernel as one tuple
import torch
import torch.nn as nn
import triton
import triton.language as tl

@triton.jit
def kernel(x_ptr, out_ptr, shape, strides, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)[:, None]
    c = tl.program_id(1) * BC + tl.arange(0, BC)[None, :]
    mask = (r < shape[0]) & (c < shape[1])
    at = r * strides[0] + c * strides[1]
    tl.store(out_ptr + at, tl.maximum(tl.load(x_ptr + at, mask=mask), 0.0), mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        rows, cols = x.shape
        kernel[(triton.cdiv(rows, 4), triton.cdiv(cols, 128))](x, out, (rows, cols), x.stride(), BR=4, BC=128)
        return out
