# task: wright/swiglu
# expect: correct
# why: two inputs, tiles over rows and columns, arithmetic in float32
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(g_ptr, u_ptr, out_ptr, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.program_id(1) * C + tl.arange(0, C)
    at = r[:, None] * cols + c[None, :]
    mask = (r[:, None] < rows) & (c[None, :] < cols)
    g = tl.load(g_ptr + at, mask=mask, other=0.0).to(tl.float32)
    u = tl.load(u_ptr + at, mask=mask, other=0.0).to(tl.float32)
    s = (g / (1.0 + tl.exp(-g))).to(tl.bfloat16).to(tl.float32)
    tl.store(out_ptr + at, (s * u).to(tl.bfloat16), mask=mask)


class ModelNew(nn.Module):
    def forward(self, gate, up):
        rows, cols = gate.shape
        out = torch.empty_like(up)
        kernel[(triton.cdiv(rows, 4), triton.cdiv(cols, 128))](gate, up, out, rows, cols, R=4, C=128)
        return out
