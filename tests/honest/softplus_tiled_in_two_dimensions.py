# task: wright/softplus
# expect: correct
# why: two-dimensional tiles with strides from the tensor
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, rows, cols, stride_x, stride_out, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    r = tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)
    c = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    x = tl.load(x_ptr + r[:, None] * stride_x + c[None, :], mask=mask, other=0.0).to(tl.float32)
    y = tl.where(x > 20.0, x, tl.maximum(x, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(x))))
    tl.store(out_ptr + r[:, None] * stride_out + c[None, :], y, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, *args):
        super().__init__()

    def forward(self, x):
        flat = x.view(-1, x.size(-1))
        rows, cols = flat.shape
        out = torch.empty_like(flat)
        grid = (triton.cdiv(rows, 8), triton.cdiv(cols, 128))
        kernel[grid](flat, out, rows, cols, flat.stride(0), out.stride(0), BLOCK_R=8, BLOCK_C=128)
        return out.view_as(x)
