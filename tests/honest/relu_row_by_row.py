# task: wright/relu
# expect: correct
# why: one program per row of the flattened matrix, blocks along it
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * cols + at, mask=at < cols, other=0.0).to(tl.float32)
        y = tl.maximum(x, 0.0)
        tl.store(out_ptr + row * cols + at, y.to(out_ptr.dtype.element_ty), mask=at < cols)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        out = torch.empty_like(flat)
        kernel[(flat.shape[0],)](flat, out, flat.shape[1], BLOCK=256)
        return out.view(x.shape)
